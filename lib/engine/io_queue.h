// File I/O with several operations in flight: by io_uring, or by threads where io_uring is refused
// (containers).
#pragma once

#include <cstdint>
#include <memory>

namespace engine {

/// Memory that many operations use: the kernel pins it once instead of for each of them.
struct IoBuffer {
  int index = -1;  ///< the same for the same memory; -1: not known
  char* base = nullptr;
  size_t size = 0;
};

struct IoOperation {
  bool read = true;
  int fd = -1;
  char* memory = nullptr;
  uint32_t length = 0;
  uint64_t offset = 0;
  uint64_t tag = 0;      ///< comes back with the completion
  IoBuffer buffer = {};  ///< that `memory` lies in
};

struct IoCompletion {
  uint64_t tag = 0;
  int32_t result = 0;  ///< bytes, or -errno
};

/// Used by one thread at a time. Operations complete in any order.
class IoQueue {
 public:
  virtual ~IoQueue() = default;
  /// At most depth() operations may be outstanding.
  virtual void submit(const IoOperation& operation) = 0;
  /// Starts what was submitted and waits for one completion. Must not be called with nothing outstanding.
  virtual IoCompletion wait() = 0;
  /// Starts what was submitted without waiting.
  virtual void start() {}
  unsigned depth() const { return depth_; }
  virtual const char* name() const = 0;

 protected:
  explicit IoQueue(unsigned depth) : depth_(depth) {}

 private:
  unsigned depth_;
};

/// Null if the kernel or a sandbox refuses io_uring.
std::unique_ptr<IoQueue> make_uring_queue(unsigned depth);
/// `depth` threads with preadv and pwritev.
std::unique_ptr<IoQueue> make_thread_queue(unsigned depth);

}  // namespace engine
