// Reads requests from /dev/fuse, on as many threads as there are requests at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <thread>

#include "posix/fd.h"
#include "posix/mapping.h"

namespace fs {

inline constexpr size_t kPage = 4096;

/// A request as the kernel sent it. Data of a write begins at a page.
using RequestBytes = std::span<char>;
using ServeRequest = std::function<void(RequestBytes)>;

/// How many requests were served at once of late. Thread-safe.
class Load {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPeriod{1};

  void begin() {
    const int busy = ++busy_;
    int peak = peak_.load(std::memory_order_relaxed);
    while (busy > peak && !peak_.compare_exchange_weak(peak, busy)) {
    }
  }
  void end(Clock::time_point now);
  /// The most in this period and the one before, 1 at least.
  int peak() const { return std::max({1, peak_.load(), peak_before_.load()}); }

 private:
  std::atomic<int> busy_{0}, peak_{0}, peak_before_{0};
  std::atomic<Clock::time_point> began_{Clock::now()};
};

class RequestLoop {
 public:
  /// `device`: the connection. `largest`: bytes of the largest request.
  RequestLoop(int device, size_t largest, ServeRequest serve);
  ~RequestLoop();
  RequestLoop(const RequestLoop&) = delete;
  RequestLoop& operator=(const RequestLoop&) = delete;

  /// Serves until the kernel has unmounted, or one of the signals that end a program comes: 0. -errno if reading
  /// fails. The signals must be blocked in all threads (block_ending_signals).
  int run();

 private:
  struct Worker {
    posix::Mapping memory;
    std::atomic<bool> done{false};
    std::thread thread;
  };
  bool add_thread();
  void work(Worker& worker);
  void stop_threads();

  const int device_;
  const size_t largest_;
  const ServeRequest serve_;
  posix::Fd ended_;  ///< an eventfd
  Load load_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> idle_{0}, error_{0};
  std::mutex mutex_;
  std::list<Worker> workers_;
};

/// To be called before any thread exists: RequestLoop::run() waits for these signals.
void block_ending_signals();

}  // namespace fs
