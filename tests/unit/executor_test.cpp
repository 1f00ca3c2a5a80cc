#include "engine/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>

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

// Jobs that wait until they are let go on.
class Gate {
 public:
  ~Gate() { open(); }
  engine::Executor::Job job() {
    return [this] {
      std::unique_lock lock(mutex_);
      waiting_++;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    };
  }
  void await(unsigned jobs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == jobs; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned waiting_ = 0;
  bool open_ = false;
};

constexpr engine::Executor::Source kStopped = 1, kOther = 2, kThird = 3;
constexpr unsigned kThreads = 4;

// Waits for a job of its own, in vain if none of the threads takes it.
void pass(engine::Executor& executor, engine::Executor::Source source, bool is_long = false) {
  std::promise<void> done;
  executor.submit([&] { done.set_value(); }, token(), is_long, source);
  done.get_future().wait();
}

void await_end_of_extra_threads(const engine::Executor& executor) {
  while (executor.extra_threads() > 0) std::this_thread::yield();
}

TEST(Executor, ASourceThatHasStoppedDoesNotHoldUpAnother) {
  Gate stopped;
  engine::Executor executor(kThreads);
  for (unsigned i = 0; i < 2 * kThreads; i++) executor.submit(stopped.job(), token(), false, kStopped);
  stopped.await(kThreads);
  for (int i = 0; i < 20; i++) pass(executor, kOther);
  pass(executor, kThird, true);
  await_end_of_extra_threads(executor);
  stopped.open();
}

TEST(Executor, EachSourceThatStopsGetsAThread) {
  Gate stopped, others;
  engine::Executor executor(kThreads);
  for (unsigned i = 0; i < kThreads; i++) executor.submit(stopped.job(), token(), false, kStopped);
  stopped.await(kThreads);
  for (unsigned i = 0; i < 2 * kThreads; i++) executor.submit(others.job(), token(), false, kOther);
  others.await(1);
  EXPECT_EQ(executor.extra_threads(), 1u);
  pass(executor, kThird);
  others.open();
  await_end_of_extra_threads(executor);
  stopped.open();
}

TEST(Executor, OneSourceGetsNoExtraThread) {
  Gate stopped;
  std::atomic<bool> rest{false};
  engine::Executor executor(kThreads);
  for (unsigned i = 0; i < kThreads; i++) executor.submit(stopped.job(), token(), false, kStopped);
  executor.submit([&] { rest = true; }, token(), false, kStopped);
  stopped.await(kThreads);
  EXPECT_EQ(executor.extra_threads(), 0u);
  EXPECT_FALSE(rest);
  stopped.open();
}

TEST(Executor, ExtraThreadsAreBounded) {
  constexpr unsigned kMost = engine::Executor::kMostExtra;
  Gate stopped;
  std::atomic<unsigned> done{0};
  {
    engine::Executor executor(kThreads);
    for (unsigned i = 0; i < kThreads; i++) executor.submit(stopped.job(), token(), false, kStopped);
    stopped.await(kThreads);
    for (unsigned i = 0; i < kMost; i++) executor.submit(stopped.job(), token(), false, 100 + i);
    stopped.await(kThreads + kMost);
    executor.submit([&] { done++; }, token(), false, kOther);
    EXPECT_EQ(executor.extra_threads(), kMost);
    EXPECT_EQ(done, 0u);
    stopped.open();
  }
  EXPECT_EQ(done, 1u);
}

// Half of the threads for long jobs, whatever they come from, and one more for a source that has none.
TEST(Executor, LongJobsOfSeveralSourcesLeaveThreadsToShortOnes) {
  Gate stopped;
  engine::Executor executor(kThreads);
  for (unsigned i = 0; i < kThreads; i++) {
    executor.submit(stopped.job(), token(), true, kStopped);
    executor.submit(stopped.job(), token(), true, kOther);
  }
  stopped.await(kThreads / 2);
  pass(executor, kStopped);
  pass(executor, kThird, true);
  await_end_of_extra_threads(executor);
  stopped.open();
}

TEST(Executor, TheNextJobOfASourceIsNotLeftBehindThoseOfAnother) {
  Gate stopped, first;
  std::promise<void> second;
  engine::Executor executor(2);
  executor.submit(first.job(), token(), false, kOther);
  first.await(1);
  for (unsigned i = 0; i < 8; i++) executor.submit(stopped.job(), token(), false, kStopped);
  executor.submit([&] { second.set_value(); }, token(), false, kOther);
  first.open();
  second.get_future().wait();
  stopped.open();
}

}  // namespace
