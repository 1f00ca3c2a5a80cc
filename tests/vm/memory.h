// Memory that file data goes to and comes from in the virtual machine: what the software runtime calls device memory, and
// memory of a PCI device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/hip.h"
#include "mount_client.h"
#include "posix/mapping.h"

namespace vm {

class Memory {
 public:
  /// hipMalloc of the runtime.
  static posix::Result<Memory> of_runtime(std::shared_ptr<const gpu::Runtime> runtime, size_t size);
  /// `size` bytes, whole pages, of the PCI device whose p2pmem/allocate file this is, known to the runtime as host memory.
  static posix::Result<Memory> of_device(const std::shared_ptr<const gpu::Runtime>& runtime,
                                         const std::string& allocate, size_t size);
  Memory(Memory&&) = default;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  /// What the library is given, and where this program sees the bytes.
  char* address() const { return address_; }
  size_t size() const { return size_; }
  /// A mount's bytes are those at address(). Memory of a PCI device is allocated anew for each registration.
  bool is_shared() const { return allocation_.has_value(); }
  /// Registers it on an open descriptor of a mount, for this and later opens of this process.
  posix::Result<uint64_t> register_on(int mount_fd) const;

 private:
  Memory() = default;
  std::optional<tools::TargetMemory> allocation_;
  std::shared_ptr<void> library_;  ///< the runtime's, for hipHostUnregister
  posix::Fd allocate_;
  posix::Mapping mapping_;
  char* address_ = nullptr;
  size_t size_ = 0;
};

/// What the kernel says is not in use of the memory of the PCI device whose p2pmem/allocate file this is.
posix::Result<size_t> device_memory_left(const std::string& allocate);

}  // namespace vm
