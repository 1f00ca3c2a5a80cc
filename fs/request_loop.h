// Reads requests from /dev/fuse, on as many threads as there are requests at once.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <thread>

#include "posix/fd.h"
#include "posix/mapping.h"
#include "request_load.h"

namespace fs {

inline constexpr size_t kPage = 4096;

/// A request as the kernel sent it. Data of a write begins at a page.
using RequestBytes = std::span<char>;
using ServeRequest = std::function<void(RequestBytes)>;

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
  RequestLoad load_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> idle_{0}, error_{0};
  std::mutex mutex_;
  std::list<Worker> workers_;
};

/// To be called before any thread exists: RequestLoop::run() waits for these signals.
void block_ending_signals();

}  // namespace fs
