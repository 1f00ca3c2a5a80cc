// An allocation of another process, made with cuMemCreate and shared by descriptor, mapped here.
#pragma once

#include <cstddef>
#include <memory>

#include "driver.h"

namespace cuda {

class SharedAllocation {
 public:
  /// Maps `size` bytes, rounded up to what the driver maps, for `device`. The descriptor stays the caller's.
  /// Null with `error` set if it is no such descriptor, or holds less.
  static std::unique_ptr<SharedAllocation> map(int fd, size_t size, int device, hip::Error& error);
  ~SharedAllocation();
  SharedAllocation(const SharedAllocation&) = delete;
  SharedAllocation& operator=(const SharedAllocation&) = delete;
  char* address() const { return static_cast<char*>(address_); }
  size_t size() const { return size_; }

 private:
  SharedAllocation() = default;
  hip::Error map_for(int device);
  AllocationHandle handle_ = 0;
  bool imported_ = false, mapped_ = false;
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace cuda
