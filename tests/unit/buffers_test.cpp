#include "buffers.h"

#include <gtest/gtest.h>

namespace {

const fs::ProcessKey kMine{100, 1}, kOther{100, 2};

std::unique_ptr<gpu::Imported> memory(int* released = nullptr) {
  return std::make_unique<gpu::Imported>(gpu::Memory{}, [released] {
    if (released) ++*released;
  });
}

TEST(BufferTable, ABufferIsValidOnItsOwnDescriptionOnly) {
  fs::BufferTable table;
  uint64_t id = *table.add(memory(), 1, kMine, false);
  EXPECT_TRUE(table.find(id, 1, std::nullopt));
  EXPECT_FALSE(table.find(id, 2, std::nullopt));
  EXPECT_FALSE(table.find(id, 2, kMine));
  EXPECT_FALSE(table.find(id + 1, 1, std::nullopt));
}

TEST(BufferTable, AProcessWideBufferIsValidOnWhatThatProcessOpened) {
  fs::BufferTable table;
  uint64_t id = *table.add(memory(), 1, kMine, true);
  EXPECT_TRUE(table.find(id, 2, kMine));
  EXPECT_FALSE(table.find(id, 2, kOther));  // the same number, another process
  EXPECT_FALSE(table.find(id, 2, std::nullopt));
}

TEST(BufferTable, AttachingIsForTheProcessThatRegistered) {
  fs::BufferTable table;
  uint64_t id = *table.add(memory(), 1, kMine, false);
  EXPECT_EQ(table.attach(id, 2, kOther).error().code, EPERM);
  EXPECT_EQ(table.attach(id, 2, std::nullopt).error().code, EPERM);
  EXPECT_EQ(table.attach(id + 1, 2, kMine).error().code, ENOENT);
  EXPECT_TRUE(table.attach(id, 2, kMine));
  EXPECT_TRUE(table.find(id, 2, std::nullopt));
  table.description_closed(2);
  EXPECT_FALSE(table.find(id, 2, std::nullopt));
  EXPECT_TRUE(table.find(id, 1, std::nullopt));
}

TEST(BufferTable, ReleasesMemoryWhenTheLastRequestIsDone) {
  fs::BufferTable table;
  int released = 0, told = 0;
  uint64_t id = *table.add(memory(&released), 1, kMine, false);
  auto request = table.find(id, 1, std::nullopt);
  EXPECT_TRUE(table.remove(id, 1, std::nullopt, [&] { told = released; }));
  EXPECT_FALSE(table.find(id, 1, std::nullopt));
  EXPECT_EQ(released, 0);
  request.reset();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(told, 1);  // after the memory was let go
  EXPECT_FALSE(table.remove(id, 1, std::nullopt, {}));
}

TEST(BufferTable, ForgetsBuffersOfClosedDescriptionsAndEndedProcesses) {
  fs::BufferTable table;
  int released = 0;
  for (int i = 0; i < 3; i++) ASSERT_TRUE(table.add(memory(&released), 1, kMine, false));
  ASSERT_TRUE(table.add(memory(&released), 2, kMine, false));
  uint64_t other = *table.add(memory(&released), 3, kOther, false);
  EXPECT_TRUE(table.process_holds_buffer(kMine));
  table.description_closed(1);
  EXPECT_EQ(released, 3);
  table.process_ended(kMine);
  EXPECT_EQ(released, 4);
  EXPECT_FALSE(table.process_holds_buffer(kMine));
  EXPECT_TRUE(table.find(other, 3, std::nullopt));
  EXPECT_EQ(table.size(), 1u);
}

TEST(BufferTable, LimitsBuffersPerDescription) {
  fs::BufferTable table;
  for (size_t i = 0; i < fs::BufferTable::kMostPerDescription; i++)
    ASSERT_TRUE(table.add(memory(), 1, kMine, false));
  EXPECT_EQ(table.add(memory(), 1, kMine, false).error().code, ENOSPC);
  EXPECT_TRUE(table.add(memory(), 2, kMine, false));
}

}  // namespace
