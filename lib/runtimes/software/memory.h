// Device, pinned and managed memory of the software runtime.
//
// Device memory is a sealed memfd, so that another process can map it (IPC). Addresses come from one large
// reservation and are never used again: use after free traps instead of reading another buffer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>

#include "hip_abi/hip_abi.h"

namespace software {

enum class Kind { device, host, managed, registered };

struct Allocation {
  uintptr_t address = 0;  // what the program sees
  size_t size = 0;        // as asked for
  size_t mapped = 0;      // rounded up to whole pages
  uintptr_t alias = 0;    // where the runtime reads and writes; differs from address in strict mode
  Kind kind = Kind::device;
  int device = 0;
  unsigned flags = 0;
  int memfd = -1;          // device memory only
  uint64_t nonce[2] = {};  // in the memfd's name: who knows it was given the handle
  uint64_t id = 0;         // HIP_POINTER_ATTRIBUTE_BUFFER_ID
  int imports = 0;         // > 0: opened from another process, this many times
  dev_t import_dev = 0;
  ino_t import_ino = 0;
};

/// The name of the memfd behind an allocation.
std::string memfd_name(const uint64_t (&nonce)[2]);

class Memory {
 public:
  Memory(bool strict, size_t bytes_per_device, int devices);

  hip::Error allocate(Kind kind, int device, size_t size, unsigned flags, void** out);
  /// Frees device, host or managed memory; `address` must be the start of an allocation of that sort.
  hip::Error free(void* address, bool host);
  hip::Error register_host(void* address, size_t size, unsigned flags, int device);
  hip::Error unregister_host(void* address);
  /// Maps another process's memfd, whole, or finds the mapping that already exists for it, as memory of
  /// `device`. `size`: what the caller expects it to hold at least.
  hip::Error import(int memfd, size_t size, int device, void** base);
  hip::Error close_import(void* base);

  /// The allocation that `address` lies in.
  std::optional<Allocation> find(const void* address) const;
  /// Where the runtime itself can access [address, address + size); nullptr if that leaves an allocation.
  /// Memory /// that was never the runtime's is the caller's own and is returned as it is.
  void* access(const void* address, size_t size) const;
  size_t free_bytes(int device) const;
  size_t total_bytes() const { return bytes_per_device_; }

 private:
  uintptr_t reserve(size_t bytes);
  hip::Error map_device(Allocation& a) const;
  void forget(std::map<uintptr_t, Allocation>::iterator it);

  const bool strict_;
  const size_t bytes_per_device_;
  mutable std::shared_mutex mutex_;
  uintptr_t start_ = 0, next_ = 0, end_ = 0;
  uint64_t next_id_ = 1;
  std::map<uintptr_t, Allocation> allocations_;
  std::map<int, size_t> used_;
};

}  // namespace software
