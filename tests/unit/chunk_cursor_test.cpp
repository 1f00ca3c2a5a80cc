#include "engine/chunk_cursor.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

using engine::ChunkCursor;
using engine::Extent;

TEST(ChunkCursor, CutsAtMultiplesOfTheChunkSizeInTheFile) {
  ChunkCursor cursor(1000, {24, 10024}, 4096);  // file bytes 1024 to 11024
  std::vector<std::pair<uint64_t, uint64_t>> cuts;
  for (Extent e = cursor.take(); e.length() > 0; e = cursor.take()) cuts.emplace_back(e.begin, e.end);
  EXPECT_EQ(cuts, (std::vector<std::pair<uint64_t, uint64_t>>{{24, 3096}, {3096, 7192}, {7192, 10024}}));
  EXPECT_TRUE(cursor.done());
  EXPECT_EQ(cursor.left(), 0u);
}

TEST(ChunkCursor, HandsOutNothingOnceStopped) {
  ChunkCursor cursor(0, {0, 1 << 20}, 4096);
  EXPECT_EQ(cursor.take().length(), 4096u);
  cursor.stop();
  EXPECT_EQ(cursor.take().length(), 0u);
  EXPECT_TRUE(cursor.done());
}

TEST(ChunkCursor, GivesEveryByteToOneThread) {
  constexpr uint64_t kLength = 1 << 22;
  ChunkCursor cursor(77, {0, kLength}, 4096);
  std::vector<std::atomic<int>> taken(kLength / 512);
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (Extent e = cursor.take(); e.length() > 0; e = cursor.take()) {
        sum += e.length();
        taken[e.begin / 512]++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, kLength);
  for (auto& t : taken) EXPECT_LE(t, 1);
}

}  // namespace
