// How many requests are served at once, by which receiving threads stay.
#include "request_load.h"

#include <gtest/gtest.h>

namespace {

using fs::RequestLoad;

class Load : public testing::Test {
 protected:
  // So many at once.
  void serve(int requests, RequestLoad::Clock::time_point at) {
    for (int i = 0; i < requests; i++) load_.begin();
    for (int i = 0; i < requests; i++) load_.end(at);
  }
  RequestLoad load_;
  const RequestLoad::Clock::time_point start_ = RequestLoad::Clock::now();
};

TEST_F(Load, IsTheMostAtOnce) {
  EXPECT_EQ(load_.peak(), 1);
  serve(5, start_);
  serve(2, start_);
  EXPECT_EQ(load_.peak(), 5);
}

TEST_F(Load, IsForgottenAfterTwoPeriods) {
  serve(9, start_);
  serve(1, start_ + std::chrono::milliseconds(1500));
  EXPECT_EQ(load_.peak(), 9);
  serve(2, start_ + 2 * RequestLoad::kPeriod);
  EXPECT_EQ(load_.peak(), 9);
  serve(2, start_ + 3 * RequestLoad::kPeriod);
  serve(2, start_ + 3 * RequestLoad::kPeriod);
  EXPECT_EQ(load_.peak(), 2);
}

TEST_F(Load, OfLongAgoCountsNoMore) {
  serve(9, start_);
  serve(1, start_ + 10 * RequestLoad::kPeriod);
  serve(1, start_ + 10 * RequestLoad::kPeriod);
  EXPECT_EQ(load_.peak(), 1);
}

}  // namespace
