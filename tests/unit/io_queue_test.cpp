#include "engine/io_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "posix/fd.h"

namespace {

class IoQueue : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    queue_ = GetParam() ? engine::make_uring_queue(8) : engine::make_thread_queue(8);
    if (!queue_) GTEST_SKIP() << "io_uring is refused here";
    char name[] = "/tmp/io_queue_XXXXXX";
    file_ = posix::Fd(mkstemp(name));
    unlink(name);
  }
  std::unique_ptr<engine::IoQueue> queue_;
  posix::Fd file_;
};

TEST_P(IoQueue, WritesAndReadsBackManyOperationsInAnyOrder) {
  constexpr uint32_t kPart = 4096;
  std::vector<char> out(8 * kPart), in(8 * kPart);
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<char>(i * 31 + i / kPart);
  for (bool read : {false, true}) {
    std::set<uint64_t> tags;
    for (uint32_t i = 0; i < 8; i++)
      queue_->submit({read, file_.get(), (read ? in : out).data() + i * kPart, kPart, i * kPart, i});
    for (int i = 0; i < 8; i++) {
      auto done = queue_->wait();
      EXPECT_EQ(done.result, static_cast<int32_t>(kPart));
      tags.insert(done.tag);
    }
    EXPECT_EQ(tags.size(), 8u);
  }
  EXPECT_EQ(in, out);
}

TEST_P(IoQueue, ReportsErrorsAndEndOfFile) {
  char byte = 0;
  queue_->submit({true, file_.get(), &byte, 1, 0, 1});
  EXPECT_EQ(queue_->wait().result, 0);
  queue_->submit({true, -1, &byte, 1, 0, 2});
  auto done = queue_->wait();
  EXPECT_EQ(done.result, -EBADF);
  EXPECT_EQ(done.tag, 2u);
}

TEST_P(IoQueue, KeepsWorkingAtFullDepthForManyRounds) {
  ASSERT_EQ(ftruncate(file_.get(), 1 << 20), 0);
  std::vector<char> memory(1000 * 512);
  unsigned outstanding = 0, finished = 0, started = 0;
  while (finished < 1000) {
    while (outstanding < queue_->depth() && started < 1000) {
      queue_->submit(
          {true, file_.get(), memory.data() + started * 512, 512, (started * 512) % (1 << 20), started});
      started++;
      outstanding++;
    }
    EXPECT_EQ(queue_->wait().result, 512);
    outstanding--;
    finished++;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, IoQueue, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "io_uring" : "threads"; });

}  // namespace
