// A memory mapping that unmaps itself.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "posix/error.h"

namespace posix {

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address_) ::munmap(address_, size_);
  }

  /// Shared, readable and writable. `offset` must be page-aligned.
  static Result<Mapping> shared(int fd, size_t size, off_t offset = 0) {
    void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (p == MAP_FAILED) return last_failure("map " + std::to_string(size) + " bytes");
    return Mapping(p, size);
  }
  /// Shared, readable only. `offset` must be page-aligned.
  static Result<Mapping> shared_read_only(int fd, size_t size, off_t offset) {
    void* p = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, offset);
    if (p == MAP_FAILED) return last_failure("map " + std::to_string(size) + " bytes");
    return Mapping(p, size);
  }
  /// Private zero pages.
  static Result<Mapping> anonymous(size_t size) {
    void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return last_failure("map " + std::to_string(size) + " bytes");
    return Mapping(p, size);
  }

  char* data() const { return static_cast<char*>(address_); }
  size_t size() const { return size_; }

 private:
  Mapping(void* address, size_t size) : address_(address), size_(size) {}
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace posix
