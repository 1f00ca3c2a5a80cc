// How many requests are served at once, by which receiving threads stay.
#include <gtest/gtest.h>

#include "request_loop.h"

namespace {

using fs::Load;

class RequestLoad : public testing::Test {
 protected:
  // So many at once.
  void serve(int requests, Load::Clock::time_point at) {
    for (int i = 0; i < requests; i++) load_.begin();
    for (int i = 0; i < requests; i++) load_.end(at);
  }
  Load load_;
  const Load::Clock::time_point start_ = Load::Clock::now();
};

TEST_F(RequestLoad, IsTheMostAtOnce) {
  EXPECT_EQ(load_.peak(), 1);
  serve(5, start_);
  serve(2, start_);
  EXPECT_EQ(load_.peak(), 5);
}

TEST_F(RequestLoad, IsForgottenAfterTwoPeriods) {
  serve(9, start_);
  serve(1, start_ + std::chrono::milliseconds(1500));
  EXPECT_EQ(load_.peak(), 9);
  serve(2, start_ + 2 * Load::kPeriod);
  EXPECT_EQ(load_.peak(), 9);
  serve(2, start_ + 3 * Load::kPeriod);
  serve(2, start_ + 3 * Load::kPeriod);
  EXPECT_EQ(load_.peak(), 2);
}

TEST_F(RequestLoad, OfLongAgoCountsNoMore) {
  serve(9, start_);
  serve(1, start_ + 10 * Load::kPeriod);
  serve(1, start_ + 10 * Load::kPeriod);
  EXPECT_EQ(load_.peak(), 1);
}

}  // namespace
