#include "engine/io_queue.h"

#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace engine {
namespace {

IoCompletion carry_out(const IoOperation& op) {
  auto at = static_cast<off_t>(op.offset);
  ssize_t n = op.read ? pread(op.fd, op.memory, op.length, at) : pwrite(op.fd, op.memory, op.length, at);
  return {op.tag, n < 0 ? -errno : static_cast<int32_t>(n)};
}

// If the kernel refuses to take operations later on (a seccomp filter, no memory), those it has not taken are
// carried out here, one by one.
class UringQueue : public IoQueue {
 public:
  UringQueue(unsigned depth, const io_uring& ring) : IoQueue(depth), ring_(ring) {}
  ~UringQueue() override { io_uring_queue_exit(&ring_); }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  void submit(const IoOperation& op) override { waiting_.push_back(op); }

  void start() override {
    if (refused_) return;
    for (; prepared_ < waiting_.size(); prepared_++) {
      const IoOperation& op = waiting_[prepared_];
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (!sqe) break;
      const int buffer = registered(op.buffer);
      if (buffer >= 0 && op.read)
        io_uring_prep_read_fixed(sqe, op.fd, op.memory, op.length, op.offset, buffer);
      else if (buffer >= 0)
        io_uring_prep_write_fixed(sqe, op.fd, op.memory, op.length, op.offset, buffer);
      else if (op.read)
        io_uring_prep_read(sqe, op.fd, op.memory, op.length, op.offset);
      else
        io_uring_prep_write(sqe, op.fd, op.memory, op.length, op.offset);
      io_uring_sqe_set_data64(sqe, op.tag);
    }
    if (prepared_ == 0) return;
    int taken = io_uring_submit(&ring_);
    if (taken > 0) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + taken);
      prepared_ -= static_cast<size_t>(taken);
      in_kernel_ += static_cast<unsigned>(taken);
    } else if (taken < 0 && taken != -EINTR && taken != -EAGAIN && taken != -EBUSY) {
      refused_ = true;
    }
  }

  IoCompletion wait() override {
    for (;;) {
      start();
      io_uring_cqe* cqe = nullptr;
      if (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        IoCompletion done{io_uring_cqe_get_data64(cqe), cqe->res};
        io_uring_cqe_seen(&ring_, cqe);
        in_kernel_--;
        return done;
      }
      if (refused_ && !waiting_.empty()) {
        IoOperation op = waiting_.front();
        waiting_.pop_front();
        return carry_out(op);
      }
      if (in_kernel_ == 0 || io_uring_wait_cqe(&ring_, &cqe) != 0) usleep(100);
    }
  }

  const char* name() const override { return "io_uring"; }

 private:
  // The kernel's index of a buffer, which is registered when first used. -1 where that is refused (memory that may not
  // be pinned for long, RLIMIT_MEMLOCK): then operations are plain ones from there on.
  int registered(const IoBuffer& buffer) {
    if (buffer.index < 0 || buffer.index >= kMostBuffers || buffers_refused_) return -1;
    const auto index = static_cast<size_t>(buffer.index);
    if (bases_.empty()) {
      buffers_refused_ = io_uring_register_buffers_sparse(&ring_, kMostBuffers) < 0;
      if (buffers_refused_) return -1;
      bases_.resize(kMostBuffers);
    }
    if (bases_[index] == buffer.base) return buffer.index;
    iovec range{buffer.base, buffer.size};
    buffers_refused_ = io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(buffer.index),
                                                            &range, nullptr, 1) != 1;
    if (buffers_refused_) return -1;
    bases_[index] = buffer.base;
    return buffer.index;
  }

  static constexpr int kMostBuffers = 1024;
  io_uring ring_;
  std::vector<char*> bases_;  // of the registered buffers, by index
  bool buffers_refused_ = false;
  std::deque<IoOperation> waiting_;  // not yet taken by the kernel; the first `prepared_` are in the ring
  size_t prepared_ = 0;
  unsigned in_kernel_ = 0;
  bool refused_ = false;
};

class ThreadQueue : public IoQueue {
 public:
  explicit ThreadQueue(unsigned depth) : IoQueue(depth) {
    threads_.reserve(depth);
    try {
      while (threads_.size() < depth) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      // Fewer threads than wanted do; with none, wait() carries the operations out itself.
    }
  }
  ~ThreadQueue() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (auto& t : threads_) t.join();
  }
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  // Writes are done at once: quota and set-id bits go by the rights of the thread that asks, not of these threads.
  void submit(const IoOperation& op) override {
    if (!op.read) {
      IoCompletion done = carry_out(op);
      std::lock_guard lock(mutex_);
      finished_.push_back(done);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(op);
    }
    work_.notify_one();
  }

  IoCompletion wait() override {
    std::unique_lock lock(mutex_);
    if (threads_.empty() && !waiting_.empty()) {
      IoOperation op = waiting_.front();
      waiting_.pop_front();
      return carry_out(op);
    }
    done_.wait(lock, [this] { return !finished_.empty(); });
    IoCompletion c = finished_.front();
    finished_.pop_front();
    return c;
  }

  const char* name() const override { return "threads"; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      IoOperation op = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      IoCompletion c = carry_out(op);
      lock.lock();
      finished_.push_back(c);
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<IoOperation> waiting_;
  std::deque<IoCompletion> finished_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(unsigned depth) {
  io_uring ring;
  // Completions are looked at when this thread waits for them: no interrupt is needed before (Linux 5.19).
  if (io_uring_queue_init(depth, &ring, IORING_SETUP_COOP_TASKRUN) < 0 &&
      io_uring_queue_init(depth, &ring, 0) < 0)
    return nullptr;
  return std::make_unique<UringQueue>(depth, ring);
}

std::unique_ptr<IoQueue> make_thread_queue(unsigned depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace engine
