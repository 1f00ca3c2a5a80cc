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
