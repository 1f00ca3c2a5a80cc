#include "engine/io_queue.h"

#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace engine {
namespace {

class UringQueue : public IoQueue {
 public:
  UringQueue(unsigned depth, const io_uring& ring) : IoQueue(depth), ring_(ring) {}
  ~UringQueue() override { io_uring_queue_exit(&ring_); }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  void submit(const IoOperation& op) override {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);  // never null: the ring has `depth` entries
    if (op.read)
      io_uring_prep_read(sqe, op.fd, op.memory, op.length, op.offset);
    else
      io_uring_prep_write(sqe, op.fd, op.memory, op.length, op.offset);
    io_uring_sqe_set_data64(sqe, op.tag);
  }

  void start() override { io_uring_submit(&ring_); }

  IoCompletion wait() override {
    io_uring_cqe* cqe = nullptr;
    if (io_uring_peek_cqe(&ring_, &cqe) != 0) {
      int status;
      do {
        status = io_uring_submit_and_wait(&ring_, 1);
        if (status >= 0) status = io_uring_peek_cqe(&ring_, &cqe);
      } while (status == -EINTR || status == -EAGAIN || status == -EBUSY);
    } else if (io_uring_sq_ready(&ring_)) {
      io_uring_submit(&ring_);
    }
    IoCompletion done{io_uring_cqe_get_data64(cqe), cqe->res};
    io_uring_cqe_seen(&ring_, cqe);
    return done;
  }

  const char* name() const override { return "io_uring"; }

 private:
  io_uring ring_;
};

class ThreadQueue : public IoQueue {
 public:
  explicit ThreadQueue(unsigned depth) : IoQueue(depth) {
    for (unsigned i = 0; i < depth; i++) threads_.emplace_back([this] { run(); });
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

  void submit(const IoOperation& op) override {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(op);
    }
    work_.notify_one();
  }

  IoCompletion wait() override {
    std::unique_lock lock(mutex_);
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
      auto at = static_cast<off_t>(op.offset);
      ssize_t n = op.read ? pread(op.fd, op.memory, op.length, at) : pwrite(op.fd, op.memory, op.length, at);
      IoCompletion c{op.tag, n < 0 ? -errno : static_cast<int32_t>(n)};
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
  if (io_uring_queue_init(depth, &ring, 0) < 0) return nullptr;
  return std::make_unique<UringQueue>(depth, ring);
}

std::unique_ptr<IoQueue> make_thread_queue(unsigned depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace engine
