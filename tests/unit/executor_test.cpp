#include "engine/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace {

std::shared_ptr<engine::CancelToken> token() { return std::make_shared<engine::CancelToken>(); }

TEST(Executor, RunsEveryJob) {
  std::atomic<int> done{0};
  {
    engine::Executor executor(3);
    for (int i = 0; i < 100; i++) executor.submit([&] { done++; }, token(), i % 2 == 0);
  }
  EXPECT_EQ(done, 100);
}

TEST(Executor, ShortJobsPassAnyNumberOfLongOnes) {
  engine::Executor executor(4);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  for (int i = 0; i < 20; i++) executor.submit([released] { released.wait(); }, token(), true);
  std::promise<void> short_done;
  executor.submit([&] { short_done.set_value(); }, token(), false);
  short_done.get_future().wait();  // would hang if long jobs could take every thread
  release.set_value();
}

TEST(Executor, StoppingCancelsWhatRunsAndWhatWaits) {
  engine::Executor executor(2);
  std::vector<std::shared_ptr<engine::CancelToken>> tokens;
  std::atomic<int> ended{0};
  std::promise<void> started;
  for (int i = 0; i < 5; i++) {
    tokens.push_back(token());
    executor.submit(
        [&, i, t = tokens.back()] {
          if (i == 0) started.set_value();
          while (!t->reason()) std::this_thread::yield();
          ended++;
        },
        tokens.back(), true);
  }
  started.get_future().wait();
  executor.stop();
  EXPECT_EQ(ended, 5);
  for (auto& t : tokens) EXPECT_EQ(t->reason(), ESHUTDOWN);
}

TEST(Executor, JobsAfterTheEndRunCancelled) {
  engine::Executor executor(2);
  executor.stop();
  auto t = token();
  int reason = 0;
  executor.submit([&] { reason = t->reason(); }, t, false);
  EXPECT_EQ(reason, ESHUTDOWN);
}

}  // namespace
