// A request to stop, set by one thread and looked at by another between chunks.
#pragma once

#include <atomic>

namespace engine {

class CancelToken {
 public:
  /// `reason`: the errno that a request which moved nothing ends with, EINTR or ESHUTDOWN.
  void cancel(int reason) { reason_.store(reason, std::memory_order_relaxed); }
  /// 0 while not cancelled.
  int reason() const { return reason_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> reason_{0};
};

}  // namespace engine
