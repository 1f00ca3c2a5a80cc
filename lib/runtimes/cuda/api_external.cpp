// Device memory by descriptor: dma-bufs of our own memory, and what other processes share.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <map>
#include <mutex>
#include <string>

#include "runtime.h"
#include "shared_allocation.h"

using cuda::call;

namespace {

constexpr unsigned kNvidiaMajor = 195;

bool is_dma_buf(int fd) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  ssize_t n = readlink(link.c_str(), target, sizeof target);
  return n > 0 && std::string(target, static_cast<size_t>(n)).starts_with("/dmabuf:");
}

// Shared allocations are descriptors of the driver's own device.
bool is_nvidia_device(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == kNvidiaMajor;
}

// What one hip::ExternalMemory is: an import of the driver, or an allocation that is mapped here.
struct External {
  hip::ExternalMemory imported = nullptr;
  std::unique_ptr<cuda::SharedAllocation> mapped;
};

class Externals {
 public:
  hip::ExternalMemory add(External e) {
    auto owned = std::make_unique<External>(std::move(e));
    hip::ExternalMemory key = owned.get();
    std::lock_guard lock(mutex_);
    entries_[key] = std::move(owned);
    return key;
  }
  /// Null for what is none. Valid until it is taken.
  const External* find(hip::ExternalMemory key) {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : it->second.get();
  }
  std::unique_ptr<External> take(hip::ExternalMemory key) {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    auto out = std::move(it->second);
    entries_.erase(it);
    return out;
  }

 private:
  std::mutex mutex_;
  std::map<hip::ExternalMemory, std::unique_ptr<External>> entries_;
};

Externals& externals() {
  static auto* instance = new Externals;
  return *instance;
}

// The driver takes over the descriptor of an opaque import that succeeds; HIP leaves the caller his.
hip::Error import_by_driver(hip::ExternalMemoryHandleDesc desc, External& out) {
  const bool dma_buf = is_dma_buf(desc.handle.fd);
  if (dma_buf) {
    desc.type = cuda::kExternalDmaBuf;
    return cuda::call_if(call().cuImportExternalMemory, &out.imported, &desc);
  }
  desc.handle.fd = fcntl(desc.handle.fd, F_DUPFD_CLOEXEC, 0);
  if (desc.handle.fd < 0) return hip::kErrorInvalidValue;
  hip::Error error = cuda::call_if(call().cuImportExternalMemory, &out.imported, &desc);
  if (error != hip::kSuccess) close(desc.handle.fd);
  return error;
}

hip::Error import(const hip::ExternalMemoryHandleDesc& given, External& out) {
  if (given.type != hip::kExternalMemoryOpaqueFd) return hip::kErrorInvalidValue;
  if (is_nvidia_device(given.handle.fd)) {
    hip::Error error = hip::kSuccess;
    out.mapped = cuda::SharedAllocation::map(given.handle.fd, given.size, cuda::current_device(), error);
    if (out.mapped) return hip::kSuccess;
  }
  hip::ExternalMemoryHandleDesc desc{};  // HIP 5's callers have no `reserved`
  desc.type = given.type;
  desc.handle.fd = given.handle.fd;
  desc.size = given.size;
  desc.flags = given.flags;
  return import_by_driver(desc, out);
}

hip::Error mapped_buffer(void** out, const External& e, const hip::ExternalMemoryBufferDesc& given) {
  if (e.mapped) {
    if (given.offset > e.mapped->size() || given.size > e.mapped->size() - given.offset)
      return hip::kErrorInvalidValue;
    *out = e.mapped->address() + given.offset;
    return hip::kSuccess;
  }
  hip::ExternalMemoryBufferDesc desc{};
  desc.offset = given.offset;
  desc.size = given.size;
  desc.flags = given.flags;
  return cuda::call_if(call().cuExternalMemoryGetMappedBuffer, out, e.imported, &desc);
}

}  // namespace

HIP_EXPORT hip::Error hipMemGetHandleForAddressRange(void* handle, void* p, size_t size, int type,
                                                     unsigned long long flags) {
  HIP_ENTER();
  if (!handle || !p || type != hip::kMemRangeHandleTypeDmaBufFd) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuMemGetHandleForAddressRange, handle, p, size, type, flags));
}
/// Takes what Vulkan exports, allocations shared by cuMemExportToShareableHandle, and, where the driver can,
/// dma-bufs. Of a shared allocation, `size` need not be all.
HIP_EXPORT hip::Error hipImportExternalMemory(hip::ExternalMemory* out,
                                              const hip::ExternalMemoryHandleDesc* desc) {
  HIP_ENTER();
  if (!out || !desc) HIP_RETURN(hip::kErrorInvalidValue);
  External external;
  hip::Error error = import(*desc, external);
  if (error == hip::kSuccess) *out = externals().add(std::move(external));
  HIP_RETURN(error);
}
HIP_EXPORT hip::Error hipExternalMemoryGetMappedBuffer(void** out, hip::ExternalMemory memory,
                                                       const hip::ExternalMemoryBufferDesc* desc) {
  HIP_ENTER();
  const External* external = externals().find(memory);
  if (!out || !desc || !external) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(mapped_buffer(out, *external, *desc));
}
HIP_EXPORT hip::Error hipDestroyExternalMemory(hip::ExternalMemory memory) {
  HIP_ENTER();
  auto external = externals().take(memory);
  if (!external) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(external->imported ? cuda::call_if(call().cuDestroyExternalMemory, external->imported)
                                : hip::kSuccess);
}
