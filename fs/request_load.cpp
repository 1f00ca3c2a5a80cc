#include "request_load.h"

namespace fs {

void RequestLoad::end(Clock::time_point now) {
  const int busy = --busy_;
  Clock::time_point began = began_;
  if (now - began < kPeriod || !began_.compare_exchange_strong(began, now)) return;
  peak_before_ = now - began < 2 * kPeriod ? peak_.load() : busy;
  peak_ = busy;
}

}  // namespace fs
