// What has failed is left alone for a while: the file, and after several files all of the file system.
#include "engine/breakers.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace {

using engine::Breakers;
using engine::Way;
using std::chrono::seconds;

const gpu::Memory kGpu0{nullptr, 4096, gpu::MemoryKind::device, 0, false};
const gpu::Memory kGpu1{nullptr, 4096, gpu::MemoryKind::device, 1, false};

storage::FileId file(ino_t inode, dev_t device = 1) { return {device, inode, 0}; }

class Breaker : public testing::Test {
 protected:
  bool open(Way way, const storage::FileId& id, const gpu::Memory& memory = kGpu0) const {
    const Breakers::Open now = breakers_.open(id, memory, now_);
    return way == Way::peer ? now.peer : way == Way::pages ? now.pages : now.direct;
  }
  void fail(Way way, const storage::FileId& id, const gpu::Memory& memory = kGpu0, bool lasting = true) {
    breakers_.failed(way, id, memory, EREMOTEIO, lasting, now_);
  }
  Breakers breakers_;
  Breakers::Clock::time_point now_ = Breakers::Clock::now();
};

TEST_F(Breaker, IsClosedAtFirst) {
  EXPECT_FALSE(breakers_.any());
  EXPECT_FALSE(open(Way::peer, file(1)));
}

TEST_F(Breaker, OpensForThatFileThatDeviceAndThatWay) {
  fail(Way::peer, file(1));
  EXPECT_TRUE(breakers_.any());
  EXPECT_TRUE(open(Way::peer, file(1)));
  EXPECT_FALSE(open(Way::peer, file(2)));
  EXPECT_FALSE(open(Way::peer, file(1), kGpu1));
  EXPECT_FALSE(open(Way::pages, file(1)));
  EXPECT_FALSE(open(Way::direct, file(1)));
}

TEST_F(Breaker, ClosesForATryThatMayReopenItForTwiceAsLong) {
  fail(Way::peer, file(1));
  now_ += seconds(9);
  EXPECT_TRUE(open(Way::peer, file(1)));
  now_ += seconds(2);
  EXPECT_FALSE(open(Way::peer, file(1)));
  fail(Way::peer, file(1));
  now_ += seconds(19);
  EXPECT_TRUE(open(Way::peer, file(1)));
  now_ += seconds(2);
  EXPECT_FALSE(open(Way::peer, file(1)));
}

TEST_F(Breaker, WaitsTenMinutesAtMost) {
  for (int i = 0; i < 20; i++) {
    fail(Way::peer, file(1));
    now_ += seconds(601);
  }
  EXPECT_FALSE(open(Way::peer, file(1)));
}

TEST_F(Breaker, CountsRequestsThatFailTogetherOnce) {
  for (int i = 0; i < 5; i++) fail(Way::peer, file(1));
  now_ += seconds(11);
  EXPECT_FALSE(open(Way::peer, file(1)));
}

TEST_F(Breaker, ToleratesAFewErrorsOfTheMoment) {
  for (int i = 0; i < 7; i++) fail(Way::peer, file(1), kGpu0, false);
  EXPECT_FALSE(open(Way::peer, file(1)));
  fail(Way::peer, file(1), kGpu0, false);
  EXPECT_TRUE(open(Way::peer, file(1)));
}

TEST_F(Breaker, ForgetsThemWithEachSuccess) {
  for (int i = 0; i < 7; i++) fail(Way::peer, file(1), kGpu0, false);
  breakers_.worked(Way::peer, file(1), kGpu0);
  for (int i = 0; i < 7; i++) fail(Way::peer, file(1), kGpu0, false);
  EXPECT_FALSE(open(Way::peer, file(1)));
}

TEST_F(Breaker, OpensForTheFileSystemAfterThreeOfItsFiles) {
  fail(Way::peer, file(1));
  fail(Way::peer, file(2));
  EXPECT_FALSE(open(Way::peer, file(4)));
  fail(Way::peer, file(3));
  EXPECT_TRUE(open(Way::peer, file(4)));
  EXPECT_FALSE(open(Way::peer, file(4), kGpu1));
  EXPECT_FALSE(open(Way::peer, file(4, 2)));
  EXPECT_FALSE(open(Way::pages, file(4)));
}

TEST_F(Breaker, ClosesForTheFileSystemWithASuccess) {
  for (ino_t i = 1; i <= 3; i++) fail(Way::peer, file(i));
  breakers_.worked(Way::peer, file(4), kGpu0);
  EXPECT_FALSE(open(Way::peer, file(4)));
  EXPECT_TRUE(open(Way::peer, file(1)));
  for (ino_t i = 1; i <= 3; i++) breakers_.worked(Way::peer, file(i), kGpu0);
  EXPECT_FALSE(breakers_.any());
}

TEST_F(Breaker, NeverHoldsOneFilesWantOfDirectIoAgainstOthers) {
  for (ino_t i = 1; i <= 20; i++) fail(Way::direct, file(i));
  EXPECT_TRUE(open(Way::direct, file(1), kGpu1));
  EXPECT_FALSE(open(Way::direct, file(21)));
}

// The runtime says a device of host memory, too, which may be pages of another PCI device.
TEST_F(Breaker, TellsHostMemoryFromTheDevicesOwn) {
  char memory[2];
  const gpu::Memory registered{&memory[0], 1, gpu::MemoryKind::host, 0, true};
  const gpu::Memory pinned{&memory[1], 1, gpu::MemoryKind::host, 0, true};
  fail(Way::pages, file(1), registered);
  EXPECT_TRUE(open(Way::pages, file(1), registered));
  EXPECT_FALSE(open(Way::pages, file(1), pinned));
  EXPECT_FALSE(open(Way::pages, file(1), {nullptr, 1, gpu::MemoryKind::device, 0, true}));
}

TEST_F(Breaker, TellsMemoryOfNoDeviceApartByItsAddress) {
  char a = 0, b = 0;
  const gpu::Memory first{&a, 1, gpu::MemoryKind::peer, -1, true},
      second{&b, 1, gpu::MemoryKind::peer, -1, true};
  fail(Way::pages, file(1), first);
  EXPECT_TRUE(open(Way::pages, file(1), first));
  EXPECT_FALSE(open(Way::pages, file(1), second));
}

}  // namespace
