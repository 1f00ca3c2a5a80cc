#include "gpu/pinned_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

std::shared_ptr<const gpu::Runtime> software() { return *gpu::Runtime::load("software"); }

TEST(PinnedPool, NeverPinsMoreThanItsCap) {
  gpu::PinnedPool pool(software(), 4096, 3 * 4096 + 100);
  auto a = pool.try_acquire(), b = pool.try_acquire(), c = pool.try_acquire();
  EXPECT_TRUE(a && b && c);
  EXPECT_FALSE(pool.try_acquire());
  EXPECT_EQ(pool.pinned_bytes(), 3u * 4096);
  a.reset();
  EXPECT_TRUE(pool.try_acquire());
}

TEST(PinnedPool, HasAtLeastOneSlot) {
  gpu::PinnedPool pool(software(), 8192, 1);
  auto slot = pool.acquire();
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->size(), 8192u);
}

TEST(PinnedPool, WaitersGetSlotsThatComeBack) {
  gpu::PinnedPool pool(software(), 4096, 4096);
  auto first = pool.acquire();
  ASSERT_TRUE(first);
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    auto slot = pool.acquire();
    got = slot.has_value();
  });
  { auto returned = std::move(*first); }
  waiter.join();
  EXPECT_TRUE(got);
}

TEST(PinnedPool, MakesAnotherSlotForOneThatIsAbandoned) {
  gpu::PinnedPool pool(software(), 4096, 4096);
  auto lost = pool.acquire();
  ASSERT_TRUE(lost);
  const char* data = lost->data();
  std::thread waiter([&] {
    auto slot = pool.acquire();
    ASSERT_TRUE(slot);
    EXPECT_NE(slot->data(), data);
  });
  lost->abandon();
  waiter.join();
  EXPECT_EQ(pool.pinned_bytes(), 4096u);
}

// All that the source can get now.
std::vector<gpu::PinnedSlot> all(gpu::PinnedPool& pool, dev_t source) {
  std::vector<gpu::PinnedSlot> slots;
  while (auto slot = pool.try_acquire(source)) slots.push_back(std::move(*slot));
  return slots;
}

TEST(PinnedPool, GivesNoSourceMoreThanHalfOfWhatTheOthersLeave) {
  gpu::PinnedPool pool(software(), 4096, 16 * 4096);
  auto a = all(pool, 1);
  EXPECT_EQ(a.size(), 8u);
  auto refused = pool.acquire(1, [] { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), hip::kSuccess);
  auto b = all(pool, 2), c = all(pool, 3), d = all(pool, 4);
  EXPECT_EQ(b.size(), 4u);
  EXPECT_EQ(c.size(), 2u);
  EXPECT_EQ(d.size(), 1u);
  b.pop_back();
  EXPECT_FALSE(pool.try_acquire(1));  // it has more than its share by now
  a.clear();
  EXPECT_EQ(all(pool, 2).size(), 3u);
}

// Who waits for a source that has stopped does not keep others from more than one slot.
TEST(PinnedPool, OthersNeedNotMakeWayForASourceThatHasItsShare) {
  gpu::PinnedPool pool(software(), 4096, 8 * 4096);
  auto stopped = all(pool, 1);
  std::atomic<bool> enough{false}, waits{false};
  std::thread waiter([&] {
    pool.acquire(1, [&] {
      waits = true;
      return enough.load();
    });
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(all(pool, 2).size(), 2u);
  enough = true;
  waiter.join();
}

TEST(PinnedPool, LetsASourceThatWaitsHaveWhatItGaveBack) {
  constexpr dev_t kSource = 7;
  gpu::PinnedPool pool(software(), 4096, 2 * 4096);
  auto only = pool.acquire(kSource);
  ASSERT_TRUE(only);
  std::thread waiter([&] { EXPECT_TRUE(pool.acquire(kSource)); });
  { auto returned = std::move(*only); }
  waiter.join();
}

TEST(PinnedPool, SaysWhenNothingCanBePinned) {
  static hip::Error (*const refuse)(void**, size_t, unsigned) = [](void**, size_t, unsigned) {
    return hip::kErrorOutOfMemory;
  };
  gpu::HipTable table = software()->hip();
  table.hipHostMalloc = refuse;
  gpu::PinnedPool pool(std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", 60000000, false),
                       4096, 8192);
  EXPECT_EQ(pool.acquire().error(), hip::kErrorOutOfMemory);
  EXPECT_FALSE(pool.try_acquire());
}

}  // namespace
