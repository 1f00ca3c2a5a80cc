#include "gpu/import.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <climits>
#include <fstream>

#include "posix/mapping.h"

namespace gpu {
namespace {

using ImportResult = posix::Result<std::unique_ptr<Imported>>;

int to_errno(hip::Error error) {
  switch (error) {
    case hip::kErrorOutOfMemory:
      return ENOMEM;
    case hip::kErrorNoDevice:
    case hip::kErrorInvalidDevice:
      return ENODEV;
    default:
      return ESTALE;
  }
}

std::string target_of(int fd) {
  char target[PATH_MAX];
  ssize_t n = readlink(posix::proc_path(fd).c_str(), target, sizeof target);
  return n < 0 ? "" : std::string(target, static_cast<size_t>(n));
}

enum class FdKind { pages, dma_buf, p2pmem, nvidia_allocation, other };

// dma-bufs say in their fdinfo who made them; no other file does.
bool says_exporter(int fd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
  for (std::string line; std::getline(info, line);)
    if (line.rfind("exp_name:", 0) == 0) return true;
  return false;
}

// Never by asking the file: the descriptor comes from anybody, and a file system of his own need never answer. Never by
// path alone: a path is what another mount namespace makes of it. Seals exist only on memfds, tmpfs and hugetlbfs, and
// what is cached of a file's device number is the kernel's own.
FdKind classify(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) return FdKind::pages;
  if (says_exporter(fd)) return FdKind::dma_buf;
  struct statx file;
  struct stat sys;
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &file) < 0) return FdKind::other;
  if (target_of(fd).ends_with("/p2pmem/allocate") && stat("/sys", &sys) == 0 &&
      makedev(file.stx_dev_major, file.stx_dev_minor) == sys.st_dev)
    return FdKind::p2pmem;
  constexpr unsigned kNvidiaMajor = 195;  // Documentation/admin-guide/devices.txt
  if (S_ISCHR(file.stx_mode) && file.stx_rdev_major == kNvidiaMajor) return FdKind::nvidia_allocation;
  return FdKind::other;
}

bool inside(uint64_t offset, uint64_t length, uint64_t size) {
  return length > 0 && offset <= size && length <= size - offset;
}

// Maps whole pages around [offset, offset + length). The owner may shrink the file later: the mapping is
// therefore only ever handed to system calls, which report EFAULT where a load or store would be a bus error.
ImportResult map_pages(const posix::Fd& fd, uint64_t offset, uint64_t length, MemoryKind kind) {
  struct stat st;
  struct statfs fs;
  if (fstat(fd.get(), &st) < 0 || fstatfs(fd.get(), &fs) < 0)
    return posix::last_failure("examine memory descriptor");
  if (kind != MemoryKind::peer && !inside(offset, length, static_cast<uint64_t>(st.st_size)))
    return posix::failure(EINVAL, "range beyond the end of the memory");
  uint64_t granularity = static_cast<unsigned long>(fs.f_type) == HUGETLBFS_MAGIC
                             ? static_cast<uint64_t>(fs.f_bsize)
                             : static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t skip = offset % granularity;
  uint64_t span = (skip + length + granularity - 1) / granularity * granularity;
  auto mapping = posix::Mapping::shared(fd.get(), span, static_cast<off_t>(offset - skip));
  if (!mapping && mapping.error().code == EPERM)
    return posix::failure(EACCES, "memory sealed against writing");
  if (!mapping) return tl::unexpected(mapping.error());
  auto kept = std::make_shared<posix::Mapping>(std::move(*mapping));
  Memory memory{kept->data() + skip, length, kind, -1, true};
  return std::make_unique<Imported>(memory, [kept] {});
}

// `size`: of the memory behind the descriptor, as far as it is known.
ImportResult import_external(const std::shared_ptr<const Runtime>& runtime, int device, const posix::Fd& fd,
                             uint64_t size, uint64_t offset, uint64_t length) {
  if (!runtime || !runtime->hip().hipImportExternalMemory ||
      !runtime->hip().hipExternalMemoryGetMappedBuffer || !runtime->hip().hipDestroyExternalMemory)
    return posix::failure(ENODEV, "this HIP runtime imports no device memory by descriptor");
  DeviceGuard guard(*runtime, device);
  if (guard.status() != hip::kSuccess) return posix::failure(ENODEV, "HIP device " + std::to_string(device));
  hip::ExternalMemoryHandleDesc handle{};
  handle.type = hip::kExternalMemoryOpaqueFd;
  handle.handle.fd = fd.get();
  handle.size = size;
  hip::ExternalMemory external = nullptr;
  if (hip::Error e = runtime->hip().hipImportExternalMemory(&external, &handle); e != hip::kSuccess)
    return posix::failure(to_errno(e), "hipImportExternalMemory: " + runtime->error_name(e));
  auto release = [runtime, external, device](void* mapped) {
    DeviceGuard current(*runtime, device);
    // The mapping holds the memory as well as the import does; runtimes that do not count it refuse the call.
    if (mapped && runtime->hip().hipFree(mapped) != hip::kSuccess) runtime->hip().hipGetLastError();
    runtime->hip().hipDestroyExternalMemory(external);
  };
  hip::ExternalMemoryBufferDesc buffer{};
  buffer.offset = offset;
  buffer.size = length;
  void* address = nullptr;
  if (hip::Error e = runtime->hip().hipExternalMemoryGetMappedBuffer(&address, external, &buffer);
      e != hip::kSuccess) {
    release(nullptr);
    return posix::failure(to_errno(e), "hipExternalMemoryGetMappedBuffer: " + runtime->error_name(e));
  }
  Memory memory{static_cast<char*>(address), length, MemoryKind::device, device,
                runtime->device_memory_is_pages()};
  return std::make_unique<Imported>(memory, [release, address] { release(address); });
}

ImportResult import_dma_buf(const std::shared_ptr<const Runtime>& runtime, int device, const posix::Fd& fd,
                            uint64_t offset, uint64_t length) {
  off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return posix::last_failure("size of dma-buf");
  if (!inside(offset, length, static_cast<uint64_t>(size)))
    return posix::failure(EINVAL, "range beyond the end of the dma-buf");
  return import_external(runtime, device, fd, static_cast<uint64_t>(size), offset, length);
}

}  // namespace

bool is_memory(int fd) { return classify(fd) != FdKind::other; }

ImportResult import_ipc(std::shared_ptr<const Runtime> runtime, int device, const hip::IpcMemHandle& handle,
                        uint64_t offset, uint64_t length) {
  if (!runtime) return posix::failure(ENODEV, "no HIP runtime");
  DeviceGuard guard(*runtime, device);  // runtimes open on the current device
  if (guard.status() != hip::kSuccess) return posix::failure(ENODEV, "HIP device " + std::to_string(device));
  void* address = nullptr;
  if (hip::Error e = runtime->hip().hipIpcOpenMemHandle(&address, handle, runtime->ipc_open_flags());
      e != hip::kSuccess)
    return posix::failure(to_errno(e), "hipIpcOpenMemHandle: " + runtime->error_name(e));
  auto release = [runtime, address, device] {
    DeviceGuard current(*runtime, device);
    runtime->hip().hipIpcCloseMemHandle(address);
  };
  auto memory = describe(*runtime, address);
  if (!memory || memory->kind != MemoryKind::device || !inside(offset, length, memory->length)) {
    release();
    return posix::failure(EINVAL, "range beyond the end of the allocation");
  }
  memory->address += offset;
  memory->length = length;
  return std::make_unique<Imported>(*memory, release);
}

ImportResult import_fd(std::shared_ptr<const Runtime> runtime, int device, posix::Fd fd, uint64_t offset,
                       uint64_t length) {
  FdKind kind = classify(fd.get());
  if (kind == FdKind::other) return posix::failure(EINVAL, "not a memory descriptor: " + target_of(fd.get()));
  if ((fcntl(fd.get(), F_GETFL) & O_ACCMODE) != O_RDWR)
    return posix::failure(EACCES, "memory descriptor not open for reading and writing");
  if (length == 0 || offset > static_cast<uint64_t>(INT64_MAX) ||
      length > static_cast<uint64_t>(INT64_MAX) - offset)
    return posix::failure(EINVAL, "range of the memory");
  if (kind == FdKind::dma_buf) return import_dma_buf(runtime, device, fd, offset, length);
  // It does not say how large it is; the driver refuses to map more than there is.
  if (kind == FdKind::nvidia_allocation)
    return import_external(runtime, device, fd, offset + length, offset, length);
  if (kind == FdKind::p2pmem && (offset != 0 || length % static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) != 0))
    return posix::failure(EINVAL, "p2pmem takes offset 0 and whole pages");
  return map_pages(fd, offset, length, kind == FdKind::p2pmem ? MemoryKind::peer : MemoryKind::host);
}

}  // namespace gpu
