#include "engine/io_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "posix/fd.h"
#include "posix/mapping.h"

namespace {

class IoQueue : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    queue_ = GetParam() ? engine::make_uring_queue(8) : engine::make_thread_queue(8);
    if (!queue_) GTEST_SKIP() << "io_uring is refused here";
    char name[] = "/var/tmp/io_queue_XXXXXX";
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

// What /proc tells of the buffers that are registered with this process's rings.
std::string registered_buffers() {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    if (std::filesystem::read_symlink(entry.path(), none) != "anon_inode:[io_uring]") continue;
    std::ifstream info("/proc/self/fdinfo/" + entry.path().filename().string());
    bool listed = false;
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("UserBufs:"))
        listed = true;
      else if (!line.starts_with(" "))
        listed = false;
      else if (listed && line.find("<none>") == std::string::npos)
        all += line + "\n";
    }
  }
  return all;
}

TEST_P(IoQueue, PinsABufferThatIsUsedAgainOnce) {
  constexpr uint32_t kPart = 4096;
  auto first = *posix::Mapping::anonymous(4 * kPart), second = *posix::Mapping::anonymous(4 * kPart);
  for (auto* memory : {&first, &second}) {  // another one in its place, as for a slot that was abandoned
    for (bool read : {false, true}) {
      for (uint32_t i = 0; i < 4; i++) {
        char* at = memory->data() + i * kPart;
        memset(at, read ? 0 : static_cast<int>('a' + i), kPart);
        queue_->submit({read, file_.get(), at, kPart, i * kPart, i, {3, memory->data(), 4 * kPart}});
      }
      for (int i = 0; i < 4; i++) EXPECT_EQ(queue_->wait().result, static_cast<int32_t>(kPart));
    }
    for (uint32_t i = 0; i < 4; i++)
      EXPECT_EQ(memory->data()[(i + 1) * kPart - 1], static_cast<char>('a' + i));
    if (!GetParam()) continue;
    char address[32];
    snprintf(address, sizeof address, "%p", static_cast<void*>(memory->data()));
    const std::string buffers = registered_buffers();
    EXPECT_NE(buffers.find(address), std::string::npos) << buffers;
    EXPECT_EQ(std::count(buffers.begin(), buffers.end(), '\n'), 1) << buffers;
  }
}

// Pages of a file may not be pinned for long.
TEST_P(IoQueue, DoesWithoutRegistrationWhereItIsRefused) {
  char name[] = "/var/tmp/io_queue_XXXXXX";
  posix::Fd backing(mkstemp(name));
  unlink(name);
  ASSERT_EQ(ftruncate(backing.get(), 4096), 0);
  auto memory = *posix::Mapping::shared(backing.get(), 4096);
  for (bool read : {false, true}) {
    memset(memory.data(), read ? 0 : 'x', 4096);
    queue_->submit({read, file_.get(), memory.data(), 4096, 0, 1, {0, memory.data(), 4096}});
    EXPECT_EQ(queue_->wait().result, 4096);
  }
  EXPECT_EQ(memory.data()[4095], 'x');
  EXPECT_EQ(registered_buffers(), "");
}

INSTANTIATE_TEST_SUITE_P(Both, IoQueue, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "io_uring" : "threads"; });

}  // namespace
