// Allocations by cuMemCreate, which are memfds, and the ranges of addresses that they are mapped to.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "driver.h"

using namespace fake_cuda;

namespace {

struct Created {
  int fd = -1;
  size_t size = 0;
  int references = 0;
};
struct Mapping {
  size_t size = 0;
  unsigned long long handle = 0;
};
std::mutex created_mutex;
std::map<unsigned long long, Created> created;
std::map<char*, Mapping> mapped;
unsigned long long next_handle = 1;
constexpr size_t kGranularity = size_t{2} << 20;

std::map<char*, Mapping>::iterator find_mapped(void* p) {
  auto after = mapped.upper_bound(static_cast<char*>(p));
  if (after == mapped.begin()) return mapped.end();
  auto it = std::prev(after);
  return static_cast<size_t>(static_cast<char*>(p) - it->first) < it->second.size ? it : mapped.end();
}

void release(unsigned long long handle) {
  auto it = created.find(handle);
  if (it == created.end() || --it->second.references > 0) return;
  close(it->second.fd);
  created.erase(it);
}

}  // namespace

std::optional<MappedRange> fake_cuda::mapped_range(void* p) {
  std::lock_guard lock(created_mutex);
  auto it = find_mapped(p);
  if (it == mapped.end()) return std::nullopt;
  return MappedRange{it->first, it->second.size};
}

CUDA_EXPORT Error cuMemCreate(unsigned long long* handle, size_t size, const void*, unsigned long long) {
  ENTER();
  if (size == 0 || size % kGranularity) return hip::kErrorInvalidValue;
  int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) < 0) return hip::kErrorOutOfMemory;
  std::lock_guard lock(created_mutex);
  *handle = next_handle++;
  created[*handle] = {fd, size, 1};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemExportToShareableHandle(void* out, unsigned long long handle, int,
                                               unsigned long long) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = created.find(handle);
  if (it == created.end()) return hip::kErrorInvalidValue;
  int fd = fcntl(it->second.fd, F_DUPFD_CLOEXEC, 0);
  memcpy(out, &fd, sizeof fd);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemImportFromShareableHandle(unsigned long long* handle, void* os_handle, int type) {
  ENTER();
  int fd = static_cast<int>(reinterpret_cast<uintptr_t>(os_handle));
  struct stat st;
  if (type != 1 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return hip::kErrorInvalidValue;
  std::lock_guard lock(created_mutex);
  *handle = next_handle++;
  created[*handle] = {fcntl(fd, F_DUPFD_CLOEXEC, 0), static_cast<size_t>(st.st_size), 1};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemRetainAllocationHandle(unsigned long long* handle, void* p) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = find_mapped(p);
  if (it == mapped.end()) return hip::kErrorInvalidValue;
  *handle = it->second.handle;
  created[*handle].references++;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemRelease(unsigned long long handle) {
  record("cuMemRelease");
  std::lock_guard lock(created_mutex);
  release(handle);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemGetAllocationGranularity(size_t* granularity, const void*, int) {
  ENTER();
  *granularity = kGranularity;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemAddressReserve(void** out, size_t size, size_t, void*, unsigned long long) {
  ENTER();
  if (size % kGranularity) return hip::kErrorInvalidValue;
  *out = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*out == MAP_FAILED) return hip::kErrorOutOfMemory;
  return forward("hipHostRegister", *out, size, 0u);  // so that copies can cross it
}
CUDA_EXPORT Error cuMemAddressFree(void* p, size_t size) {
  record("cuMemAddressFree");
  forward("hipHostUnregister", p);
  return munmap(p, size) == 0 ? hip::kSuccess : hip::kErrorInvalidValue;
}
CUDA_EXPORT Error cuMemMap(void* p, size_t size, size_t offset, unsigned long long handle,
                           unsigned long long) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = created.find(handle);
  if (it == created.end() || offset != 0 || size > it->second.size || size % kGranularity)
    return hip::kErrorInvalidValue;
  if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, it->second.fd, 0) == MAP_FAILED)
    return hip::kErrorOutOfMemory;
  it->second.references++;
  mapped[static_cast<char*>(p)] = {size, handle};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemUnmap(void* p, size_t) {
  record("cuMemUnmap");
  std::lock_guard lock(created_mutex);
  auto it = mapped.find(static_cast<char*>(p));
  if (it == mapped.end()) return hip::kErrorInvalidValue;
  release(it->second.handle);
  mapped.erase(it);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemSetAccess(void*, size_t, const void*, size_t count) {
  ENTER();
  return count == 1 ? hip::kSuccess : hip::kErrorInvalidValue;
}
