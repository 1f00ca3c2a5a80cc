#include "gpu/import.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <climits>

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

enum class FdKind { pages, dma_buf, p2pmem, other };

// By file system, never by path: a path is what another mount namespace makes of it.
FdKind classify(int fd) {
  struct statfs fs;
  struct stat st;
  if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0) return FdKind::other;
  auto type = static_cast<unsigned long>(fs.f_type);
  if (type == DMA_BUF_MAGIC) return FdKind::dma_buf;
  if (!S_ISREG(st.st_mode)) return FdKind::other;
  if (type == SYSFS_MAGIC)
    return target_of(fd).ends_with("/p2pmem/allocate") ? FdKind::p2pmem : FdKind::other;
  return type == TMPFS_MAGIC || type == HUGETLBFS_MAGIC ? FdKind::pages : FdKind::other;
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
  if (!mapping) return tl::unexpected(mapping.error());
  auto kept = std::make_shared<posix::Mapping>(std::move(*mapping));
  Memory memory{kept->data() + skip, length, kind, -1, true};
  return std::make_unique<Imported>(memory, [kept] {});
}

ImportResult import_dma_buf(const std::shared_ptr<const Runtime>& runtime, int device, const posix::Fd& fd,
                            uint64_t offset, uint64_t length) {
  if (!runtime || !runtime->hip().hipImportExternalMemory ||
      !runtime->hip().hipExternalMemoryGetMappedBuffer || !runtime->hip().hipDestroyExternalMemory)
    return posix::failure(ENODEV, "this HIP runtime imports no dma-buf");
  off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return posix::last_failure("size of dma-buf");
  if (!inside(offset, length, static_cast<uint64_t>(size)))
    return posix::failure(EINVAL, "range beyond the end of the dma-buf");
  DeviceGuard guard(*runtime, device);
  if (guard.status() != hip::kSuccess) return posix::failure(ENODEV, "HIP device " + std::to_string(device));
  hip::ExternalMemoryHandleDesc handle{};
  handle.type = hip::kExternalMemoryOpaqueFd;
  handle.handle.fd = fd.get();
  handle.size = static_cast<unsigned long long>(size);
  hip::ExternalMemory external = nullptr;
  if (hip::Error e = runtime->hip().hipImportExternalMemory(&external, &handle); e != hip::kSuccess)
    return posix::failure(to_errno(e), "hipImportExternalMemory: " + runtime->error_name(e));
  auto release = [runtime, external] { runtime->hip().hipDestroyExternalMemory(external); };
  hip::ExternalMemoryBufferDesc buffer{};
  buffer.offset = offset;
  buffer.size = length;
  void* address = nullptr;
  if (hip::Error e = runtime->hip().hipExternalMemoryGetMappedBuffer(&address, external, &buffer);
      e != hip::kSuccess) {
    release();
    return posix::failure(to_errno(e), "hipExternalMemoryGetMappedBuffer: " + runtime->error_name(e));
  }
  Memory memory{static_cast<char*>(address), length, MemoryKind::device, device,
                runtime->device_memory_is_pages()};
  return std::make_unique<Imported>(memory, release);
}

}  // namespace

ImportResult import_ipc(std::shared_ptr<const Runtime> runtime, const hip::IpcMemHandle& handle,
                        uint64_t offset, uint64_t length) {
  if (!runtime) return posix::failure(ENODEV, "no HIP runtime");
  void* address = nullptr;
  if (hip::Error e = runtime->hip().hipIpcOpenMemHandle(&address, handle, runtime->ipc_open_flags());
      e != hip::kSuccess)
    return posix::failure(to_errno(e), "hipIpcOpenMemHandle: " + runtime->error_name(e));
  auto release = [runtime, address] { runtime->hip().hipIpcCloseMemHandle(address); };
  auto memory = describe(*runtime, address);
  if (!memory || !inside(offset, length, memory->length)) {
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
  if (kind == FdKind::p2pmem && (offset != 0 || length % static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) != 0))
    return posix::failure(EINVAL, "p2pmem takes offset 0 and whole pages");
  return map_pages(fd, offset, length, kind == FdKind::p2pmem ? MemoryKind::peer : MemoryKind::host);
}

}  // namespace gpu
