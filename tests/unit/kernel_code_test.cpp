// What the device code computes, run by the host.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernel_cases.h"
#include "kernels_on_host.h"

namespace {

using namespace kernel_cases;

// Memory as a GPU has it: whole granules.
class Bytes {
 public:
  explicit Bytes(uint64_t size) : granules_(size / 16 + 2) {}
  unsigned char* data() { return reinterpret_cast<unsigned char*>(granules_.data()); }
  uint64_t size() const { return granules_.size() * 16; }
  std::span<unsigned char> span() { return {data(), size()}; }

 private:
  std::vector<kernels::Granule> granules_;
};

void copy_and_compare(const std::vector<Piece>& pieces, const kernels::Grid& grid) {
  Bytes source(region(pieces)), destination(region(pieces));
  fill_random(source.span(), 1);
  fill_random(destination.span(), 2);
  const auto expected = copied(pieces, source.span(), destination.span());
  kernels_on_host::copy(segments(pieces, source.data(), destination.data()), grid);
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), destination.data()));
}

TEST(CopySegments, CopiesEveryLengthBetweenAnyTwoAlignmentsAndNothingElse) {
  for (uint64_t from = 0; from < 16; from++)
    for (uint64_t to = 0; to < 16; to++) {
      std::vector<Piece> pieces;
      for (uint64_t length = 0; length < 70; length++)
        pieces.push_back({from + 96 * length, to + 96 * length, length});
      SCOPED_TRACE(testing::Message() << from << " to " << to);
      ASSERT_NO_FATAL_FAILURE(copy_and_compare(pieces, {1, 3}));
    }
}

TEST(CopySegments, CopiesRandomSegmentsOnAnyGrid) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 150; i++) {
    const auto count = static_cast<uint32_t>(1 + random() % 60);
    const uint64_t longest = i % 4 == 0 ? 3 * kernels::kCopyTile : random() % 9000;
    const auto pieces = random_pieces(count, longest, random());
    SCOPED_TRACE(testing::Message() << "round " << i);
    ASSERT_NO_FATAL_FAILURE(copy_and_compare(pieces, kernels::copy_grid(count, longest)));
    ASSERT_NO_FATAL_FAILURE(copy_and_compare(
        pieces, {static_cast<uint32_t>(1 + random() % 5), static_cast<uint32_t>(1 + random() % 9)}));
  }
}

TEST(CopySegments, EndsAtTheEdgesOfATile) {
  for (uint64_t edge :
       {uint64_t{kernels::kThreads} * 16, uint64_t{kernels::kCopyTile}, uint64_t{3} * kernels::kCopyTile})
    for (uint64_t length = edge - 17; length <= edge + 17; length++) {
      SCOPED_TRACE(length);
      ASSERT_NO_FATAL_FAILURE(
          copy_and_compare({{16, 16, length}, {length + 37, length + 64, length}}, {2, 1}));
    }
}

TEST(CopySegments, CopiesEveryByteOnce) {
  const auto pieces = random_pieces(7, 5 * kernels::kCopyTile, 21);
  uint64_t bytes = 0;
  for (const Piece& p : pieces) bytes += p.length;
  Bytes source(region(pieces));
  std::fill_n(source.data(), source.size(), 1);
  const kernels::Grid grid{3, 2};
  uint64_t written = 0;
  for (uint32_t y = 0; y < grid.y; y++)
    for (uint32_t x = 0; x < grid.x; x++)
      for (uint32_t thread = 0; thread < kernels::kThreads; thread++) {
        Bytes destination(region(pieces));
        const auto list = segments(pieces, source.data(), destination.data());
        kernels::copy_segments(list.data(), static_cast<uint32_t>(list.size()),
                               {thread, x, y, grid.x, grid.y});
        written +=
            static_cast<uint64_t>(std::count(destination.data(), destination.data() + destination.size(), 1));
      }
  EXPECT_EQ(written, bytes);
}

TEST(Crc32c, IsTheOneOfTheStandards) {
  Bytes bytes(64);
  memcpy(bytes.data() + 3, "123456789", 9);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data() + 3, 9), 0xE3069283u);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data(), 0), 0u);
  // RFC 3720, B.4
  memset(bytes.data(), 0, 32);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data(), 32), 0x8A9136AAu);
  memset(bytes.data(), 0xff, 32);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data(), 32), 0x62A8AB43u);
  for (unsigned i = 0; i < 32; i++) bytes.data()[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data(), 32), 0x46DD794Eu);
  for (unsigned i = 0; i < 32; i++) bytes.data()[i] = static_cast<unsigned char>(31 - i);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data(), 32), 0x113FDB5Cu);
}

TEST(Crc32c, IsRightForEveryShortRange) {
  Bytes bytes(128);
  fill_random(bytes.span(), 3);
  for (uint64_t at = 0; at < 16; at++)
    for (uint64_t length = 0; length < 64; length++)
      ASSERT_EQ(kernels_on_host::crc32c(bytes.data() + at, length), crc32c({bytes.data() + at, length}))
          << at << ", " << length;
}

TEST(Crc32c, IsRightForRandomRanges) {
  Bytes bytes(3 << 20);
  fill_random(bytes.span(), 4);
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; i++) {
    const uint64_t length = i % 2 ? random() % (3 << 20) : random() % 70000;
    const uint64_t at = random() % (bytes.size() - length);
    ASSERT_EQ(kernels_on_host::crc32c(bytes.data() + at, length), crc32c({bytes.data() + at, length}))
        << at << ", " << length;
  }
}

TEST(Crc32c, IsRightAroundWholeRowsAndBlocks) {
  Bytes bytes(300000);
  fill_random(bytes.span(), 6);
  const uint64_t block = kernels::kCrc32cLeastRows * kernels::kRowBytes;
  for (uint64_t edge :
       {uint64_t{kernels::kRowBytes}, block - kernels::kRowBytes, block, 2 * block, 3 * block})
    for (uint64_t length : {edge - 16, edge - 1, edge, edge + 1, edge + 16})
      for (uint64_t at : {0, 1, 15})
        ASSERT_EQ(kernels_on_host::crc32c(bytes.data() + at, length), crc32c({bytes.data() + at, length}))
            << at << ", " << length;
}

TEST(Crc32c, IsRightWhereBlocksTakeMoreThanTheLeastRows) {
  const uint64_t length = kernels::kCrc32cMostBlocks * kernels::kCrc32cLeastRows * kernels::kRowBytes + 12345;
  Bytes bytes(length);
  fill_random(bytes.span(), 8);
  EXPECT_GT(kernels::Crc32cPlan::of(reinterpret_cast<uint64_t>(bytes.data()), length).rows,
            kernels::kCrc32cLeastRows);
  EXPECT_EQ(kernels_on_host::crc32c(bytes.data() + 5, length), crc32c({bytes.data() + 5, length}));
}

TEST(Crc32cPlan, CoversTheRangeWithFewEnoughBlocks) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 10000; i++) {
    const uint64_t address = random() % (uint64_t{1} << 47), length = 1 + (random() >> (20 + i % 44));
    const auto plan = kernels::Crc32cPlan::of(address, length);
    ASSERT_EQ(plan.first % 16, 0u);
    ASSERT_EQ(plan.first + plan.skip_front, address);
    ASSERT_EQ(plan.first + plan.granules * 16 - plan.skip_back, address + length);
    ASSERT_LT(plan.skip_front, 16u);
    ASSERT_LT(plan.skip_back, 16u);
    ASSERT_LE(plan.blocks, kernels::kCrc32cMostBlocks);
    ASSERT_EQ(plan.padding + plan.granules, plan.blocks * plan.rows * kernels::kThreads);
    ASSERT_LT(plan.padding, plan.rows * kernels::kThreads) << "a block has nothing to do";
  }
  EXPECT_EQ(kernels::Crc32cPlan::of(4096, 0).blocks, 0u);
}

TEST(Gf2, PowersOfXRepeatAfterTheOrder) {
  EXPECT_EQ(kernels::gf2::power(0), kernels::gf2::kOne);
  EXPECT_EQ(kernels::gf2::power(kernels::gf2::kOrder), kernels::gf2::kOne);
  uint32_t power = kernels::gf2::kOne;
  for (uint64_t i = 1; i < 100; i++) {
    power = kernels::gf2::times_x(power);
    EXPECT_EQ(kernels::gf2::power(i), power);
    EXPECT_EQ(kernels::gf2::multiply(power, kernels::gf2::power(kernels::gf2::kOrder - i)),
              kernels::gf2::kOne);
  }
  // By squaring without the order, as a check of the order itself.
  uint32_t square = kernels::gf2::kOne >> 1, product = kernels::gf2::kOne;
  for (int bit = 0; bit < 31; bit++, square = kernels::gf2::multiply(square, square))
    product = kernels::gf2::multiply(product, square);
  EXPECT_EQ(product, kernels::gf2::kOne);
}

}  // namespace
