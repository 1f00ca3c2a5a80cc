// Small copies of many threads: those that come while some are under way go together, and fare alike.
#include "engine/small_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <thread>

namespace {

using engine::SmallCopies;
using engine::SmallLanes;

constexpr size_t kThreads = 24;
constexpr size_t kBytes = 512;

// Streams are waited for once everybody is there.
struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  bool gate_open = false;
  std::atomic<unsigned> synchronized{0};
  hip::Error copies = hip::kSuccess, waits = hip::kSuccess;
} device;

hip::Error copy(void* to, const void* from, size_t n, hip::MemcpyKind, hip::Stream) {
  if (device.copies == hip::kSuccess) memcpy(to, from, n);
  return device.copies;
}
hip::Error synchronize(hip::Stream) {
  device.synchronized++;
  std::unique_lock lock(device.mutex);
  device.changed.wait(lock, [] { return device.gate_open; });
  return device.waits;
}

class Small : public testing::Test {
 protected:
  void SetUp() override {
    device.gate_open = false;
    device.synchronized = 0;
    device.copies = device.waits = hip::kSuccess;
    gpu::HipTable table = (*gpu::Runtime::load("software"))->hip();
    table.hipMemcpyAsync = copy;
    table.hipStreamSynchronize = synchronize;
    runtime_ = std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", 60000000, false);
    pool_ = std::make_unique<gpu::PinnedPool>(runtime_, size_t{4} << 20, size_t{64} << 20);
    lanes_ = std::make_unique<SmallLanes>(pool_.get());
  }
  // Each thread copies its own bytes to its own place.
  void copy_from_all_threads() {
    SmallCopies copies(runtime_, nullptr, 1);
    std::atomic<size_t> begun{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++)
      threads.emplace_back([&, t] {
        auto lane = lanes_->take();
        ASSERT_TRUE(lane);
        memset(lane->data(), static_cast<int>(t + 1), kBytes);
        begun++;
        results_[t] = copies.copy(
            *lane, 0, {.source = lane->data(), .destination = target_ + t * kBytes, .length = kBytes});
      });
    while (begun < kThreads) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    {
      std::lock_guard lock(device.mutex);
      device.gate_open = true;
    }
    device.changed.notify_all();
    for (auto& thread : threads) thread.join();
  }
  std::shared_ptr<const gpu::Runtime> runtime_;
  std::unique_ptr<gpu::PinnedPool> pool_;
  std::unique_ptr<SmallLanes> lanes_;
  SmallCopies::Result results_[kThreads];
  char target_[kThreads * kBytes] = {};
};

TEST_F(Small, CopiesThatComeMeanwhileShareAWait) {
  copy_from_all_threads();
  EXPECT_LT(device.synchronized, kThreads);
  for (size_t t = 0; t < kThreads; t++) {
    EXPECT_EQ(results_[t].error, hip::kSuccess);
    EXPECT_TRUE(results_[t].settled);
    EXPECT_EQ(std::count(target_ + t * kBytes, target_ + (t + 1) * kBytes, static_cast<char>(t + 1)),
              static_cast<std::ptrdiff_t>(kBytes));
  }
}

TEST_F(Small, CopiesThatFailFailForAllThatShareThem) {
  device.copies = hip::kErrorInvalidValue;
  copy_from_all_threads();
  for (const auto& result : results_) {
    EXPECT_EQ(result.error, hip::kErrorInvalidValue);
    EXPECT_TRUE(result.settled);
  }
}

TEST_F(Small, CopiesThatCannotBeWaitedForAreUnsettledForAll) {
  device.waits = hip::kErrorUnknown;
  copy_from_all_threads();
  for (const auto& result : results_) {
    EXPECT_EQ(result.error, hip::kErrorUnknown);
    EXPECT_FALSE(result.settled);
  }
}

}  // namespace
