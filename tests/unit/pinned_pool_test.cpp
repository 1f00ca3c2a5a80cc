#include "gpu/pinned_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

TEST(PinnedPool, GivesNoSourceMoreThanHalf) {
  constexpr dev_t kSlow = 7, kFast = 8;
  gpu::PinnedPool pool(software(), 4096, 4 * 4096);
  auto a = pool.try_acquire(kSlow), b = pool.try_acquire(kSlow);
  EXPECT_TRUE(a && b);
  EXPECT_FALSE(pool.try_acquire(kSlow));
  auto refused = pool.acquire(kSlow, [] { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), hip::kSuccess);
  auto c = pool.try_acquire(kFast), d = pool.try_acquire(kFast);
  EXPECT_TRUE(c && d);
  c.reset();
  EXPECT_FALSE(pool.try_acquire(kSlow));
  a.reset();
  EXPECT_TRUE(pool.try_acquire(kSlow));
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
