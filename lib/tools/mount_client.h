// What the mount's own client tools share: device memory, its registration, and a look at what arrived in it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gpu/hip.h"
#include "hipfile_fuse.h"
#include "posix/fd.h"
#include "posix/mapping.h"

namespace tools {

/// Memory to be filled: of a GPU (or what the HIP runtime calls one), or behind a descriptor.
class TargetMemory {
 public:
  /// hipMalloc on `device`.
  static posix::Result<TargetMemory> on_device(std::shared_ptr<const gpu::Runtime> runtime, int device,
                                               size_t size);
  /// The first `size` bytes of a memfd, p2pmem or dma-buf descriptor that is already open.
  static posix::Result<TargetMemory> from_descriptor(int fd, size_t size);
  TargetMemory(TargetMemory&& other) noexcept;
  TargetMemory& operator=(TargetMemory&&) = delete;
  ~TargetMemory();

  size_t size() const { return size_; }
  /// Null for memory behind a descriptor.
  void* address() const { return address_; }
  std::string describe() const;
  /// Fills in kind, handle or descriptor, and length.
  posix::Result<void> fill(hipfile_fuse_register& registration) const;
  /// XXH3-128 of [0, length), as `xxh128sum` prints it.
  posix::Result<std::string> checksum(size_t length) const;

 private:
  TargetMemory() = default;
  std::shared_ptr<const gpu::Runtime> runtime_;
  int device_ = 0;
  void* address_ = nullptr;
  int fd_ = -1;
  size_t size_ = 0;
};

posix::Result<hipfile_fuse_info> mount_info(int fd);
/// Registers on an open descriptor of the mount; the buffer id.
posix::Result<uint64_t> register_memory(int fd, const TargetMemory& memory, uint32_t flags);

const char* route_name(uint32_t route);
/// Why the best route was not taken, for people.
std::string reason_text(uint32_t reason);

/// XXH3-128 of a file's [offset, offset + length), read with pread.
posix::Result<std::string> file_checksum(int fd, uint64_t offset, uint64_t length);

}  // namespace tools
