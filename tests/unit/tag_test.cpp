#include <gtest/gtest.h>

#include "tagged_io.h"

namespace {

// A window of 1000 bytes at file offset 5000, at 200 in the buffer.
fs::TagShare share(uint64_t offset, uint64_t length) { return fs::share_of(5000, 1000, 200, offset, length); }

TEST(TagShare, InsideTheWindowGoesToThePlaceThatCorresponds) {
  auto s = share(5100, 50);
  EXPECT_EQ(s.error, 0);
  EXPECT_EQ(s.length, 50u);
  EXPECT_EQ(s.buffer_offset, 300u);
}

TEST(TagShare, IsShortenedToTheEndOfTheWindow) {
  EXPECT_EQ(share(5900, 1000).length, 100u);
  EXPECT_EQ(share(5000, 5000).length, 1000u);
  EXPECT_EQ(share(5999, 1).length, 1u);
}

TEST(TagShare, OutsideTheWindowThereIsNoSpace) {
  EXPECT_EQ(share(4999, 10).error, ENOSPC);
  EXPECT_EQ(share(6000, 10).error, ENOSPC);
  EXPECT_EQ(share(UINT64_MAX, 10).error, ENOSPC);
  EXPECT_EQ(share(0, UINT64_MAX).error, ENOSPC);
}

TEST(ReadAhead, KeepsTheDiskBusyAndRepeatsNothing) {
  constexpr uint64_t kMiB = 1 << 20;
  auto first = fs::read_ahead_of(kMiB, 0);
  EXPECT_EQ(first.offset, kMiB);
  EXPECT_EQ(first.length, 8 * kMiB);
  EXPECT_EQ(fs::read_ahead_of(2 * kMiB, 9 * kMiB).length, 0u);  // enough is on its way
  auto next = fs::read_ahead_of(6 * kMiB, 9 * kMiB);
  EXPECT_EQ(next.offset, 9 * kMiB);
  EXPECT_EQ(next.length, 5 * kMiB);
}

}  // namespace
