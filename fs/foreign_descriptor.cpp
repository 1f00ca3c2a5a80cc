#include "foreign_descriptor.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace fs {
namespace {

constexpr size_t kMostWaiting = 256;

class Closer {
 public:
  static Closer& instance() {
    static auto* closer = new Closer;  // outlives everything: its thread may never return
    return *closer;
  }

  bool add(posix::Fd fd) {
    std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      [[maybe_unused]] int lost = fd.release();
      return false;
    }
    waiting_.push_back(std::move(fd));
    ready_.notify_one();
    return true;
  }

 private:
  Closer() {
    try {
      std::thread([this] { run(); }).detach();
    } catch (const std::system_error&) {  // then they stay open
    }
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return !waiting_.empty(); });
      posix::Fd fd = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<posix::Fd> waiting_;
};

}  // namespace

bool dispose(posix::Fd fd) { return Closer::instance().add(std::move(fd)); }

}  // namespace fs
