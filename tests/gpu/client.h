// Another process with device memory of its own, which does what it is told: the counterpart of imports.
#pragma once

#include <string>

#include "gpu.h"
#include "posix/fd.h"

namespace gpu_test {

class Client {
 public:
  /// Starts this program anew with --gpu-client.
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Allocates, and fills with pattern(size, seed); the index of the allocation.
  int allocate(size_t size, unsigned seed);
  /// Whether an allocation now holds bytes of pattern(length, seed) at an offset.
  bool holds(int allocation, size_t offset, size_t length, unsigned seed);
  bool free(int allocation);
  /// What hipIpcGetMemHandle gives for a place in an allocation.
  tl::expected<hip::IpcMemHandle, hip::Error> handle(int allocation, size_t offset = 0);
  /// A descriptor of this process for the first part of a segment of cuMemCreate allocations, filled with
  /// pattern(size, seed). Empty, with `size` 0, where that cannot be had.
  posix::Fd shared_segment(unsigned seed, size_t& size);
  bool segment_holds(size_t offset, size_t length, unsigned seed);
  /// A dma-buf of an allocation, or what the runtime says.
  tl::expected<posix::Fd, hip::Error> dma_buf(int allocation);
  /// Ends the process without a farewell.
  void kill();
  pid_t pid() const { return pid_; }

 private:
  std::string ask(const std::string& question);
  posix::Fd fetch(int fd) const;
  pid_t pid_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

/// What the process of a Client runs.
int run_client();

}  // namespace gpu_test
