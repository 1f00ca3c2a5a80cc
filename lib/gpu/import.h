// Memory that another process owns, or that comes as a descriptor, made usable here.
#pragma once

#include <functional>
#include <memory>

#include "gpu/memory.h"
#include "posix/fd.h"

namespace gpu {

/// Imported memory; released when destroyed. Releasing may wait for the device.
class Imported {
 public:
  Imported(const Memory& memory, std::function<void()> release)
      : memory_(memory), release_(std::move(release)) {}
  ~Imported() {
    if (release_) release_();
  }
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;
  const Memory& memory() const { return memory_; }

 private:
  Memory memory_;
  std::function<void()> release_;
};

/// [offset, offset + length) counted from the address that the handle was made for, opened on `device`.
/// ESTALE: the handle cannot be opened. EINVAL: the range leaves the allocation. ENODEV, ENOMEM.
posix::Result<std::unique_ptr<Imported>> import_ipc(std::shared_ptr<const Runtime> runtime, int device,
                                                    const hip::IpcMemHandle& handle, uint64_t offset,
                                                    uint64_t length);

/// Whether a descriptor is one that import_fd takes. Does not make the file's own file system do anything, so it is safe
/// on descriptors from anybody.
bool is_memory(int fd);

/// Memory behind a descriptor: a memfd, tmpfs or hugetlbfs file, a dma-buf (of `device`), a p2pmem allocate
/// file, or an allocation shared by cuMemExportToShareableHandle. EINVAL: none of these, or the range leaves it.
/// EACCES: not open for reading and writing. ESTALE: the runtime cannot import it. ENODEV, ENOMEM.
posix::Result<std::unique_ptr<Imported>> import_fd(std::shared_ptr<const Runtime> runtime, int device,
                                                   posix::Fd fd, uint64_t offset, uint64_t length);

}  // namespace gpu
