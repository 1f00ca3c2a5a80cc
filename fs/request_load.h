// How many requests were served at once of late.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace fs {

/// Thread-safe.
class RequestLoad {
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

}  // namespace fs
