// Peer-to-peer DMA by the driver, over a fake of it: several calls at once, and whatever the kernel may answer.
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <functional>

#include "engine_fixture.h"

namespace {

using namespace engine_test;
using engine::Reason;

struct Answer {
  int status = 0;                // errno
  uint64_t copied = UINT64_MAX;  // bytes moved before
};

// A driver that serves reads and writes as `answer` says.
class Driver {
 public:
  hip::Error call(bool read, int fd, char* memory, uint64_t size, int64_t offset, uint64_t* copied,
                  int32_t* status) {
    int device = -1;
    table.hipGetDevice(&device);
    Answer a;
    {
      std::unique_lock lock(mutex);
      calls++;
      largest = std::max(largest, size);
      devices.push_back(device);
      most_at_once = std::max(most_at_once, ++at_once);
      changed.notify_all();
      if (wait_for)
        changed.wait_for(lock, std::chrono::seconds(20), [this] { return most_at_once >= wait_for; });
      if (hangs) {
        hanging = true;
        changed.notify_all();
        changed.wait(lock, [this] { return !hangs; });
      }
    }
    if (answer) a = answer(offset);
    *copied = 0;
    const uint64_t length = std::min(size, a.copied);
    while (*copied < length) {
      const auto at = static_cast<off_t>(offset) + static_cast<off_t>(*copied);
      const ssize_t n = read ? pread(fd, memory + *copied, length - *copied, at)
                             : pwrite(fd, memory + *copied, length - *copied, at);
      if (n <= 0) break;
      *copied += static_cast<uint64_t>(n);
    }
    *status = -a.status;
    std::lock_guard lock(mutex);
    at_once--;
    return a.status ? hip::kErrorUnknown : hip::kSuccess;
  }

  gpu::HipTable table;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Answer(int64_t offset)> answer;
  unsigned wait_for = 0;  // so many calls at once
  bool hangs = false, hanging = false;
  unsigned calls = 0, at_once = 0, most_at_once = 0;
  uint64_t largest = 0;
  std::vector<int> devices;
};
Driver* driver;

hip::Error fake_read(hip::AmdFileHandle file, void* p, uint64_t size, int64_t offset, uint64_t* copied,
                     int32_t* status) {
  return driver->call(true, file.fd, static_cast<char*>(p), size, offset, copied, status);
}
hip::Error fake_write(hip::AmdFileHandle file, void* p, uint64_t size, int64_t offset, uint64_t* copied,
                      int32_t* status) {
  return driver->call(false, file.fd, static_cast<char*>(p), size, offset, copied, status);
}

class Peer : public Engine {
 protected:
  void SetUp() override {
    Engine::SetUp();
    if (runtime_name() != "software" || strict())
      GTEST_SKIP() << "the fake driver reads into memory as the CPU sees it";
    driver = &driver_;
    driver_.table = runtime()->hip();
    gpu::HipTable table = runtime()->hip();
    table.hipAmdFileRead = fake_read;
    table.hipAmdFileWrite = fake_write;
    engine::Config config;
    config.peer_on_any_file_system = true;
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", runtime()->version(), false),
        config);
  }
  gpu::Memory vram(uint64_t size) {
    gpu::Memory memory = device(size);
    memory.pages = false;
    return memory;
  }
  static void limit_file_sizes(bool limited) {
    rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limited ? uint64_t{1} << 40 : limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  static uint64_t by(const Outcome& o, Route route) { return o.by_route[static_cast<size_t>(route)]; }
  Outcome read_all(const storage::File& file, const gpu::Memory& memory) {
    return run(Direction::read, file, memory, 0, 0, memory.length);
  }
  // Another file with the same bytes.
  std::shared_ptr<const storage::File> another(const std::vector<char>& bytes) {
    others_.push_back(path_ + "_" + std::to_string(others_.size()));
    posix::Fd fd(open(others_.back().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return *storage::File::open(std::move(fd), engine_->mounts());
  }
  void TearDown() override {
    for (const auto& path : others_) unlink(path.c_str());
    Engine::TearDown();
  }
  Driver driver_;
  std::vector<std::string> others_;
};

TEST_F(Peer, MakesSeveralCallsAtOnceWithTheBuffersDeviceCurrentInEach) {
  const auto bytes = pattern(32 * kMiB, 91);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = vram(bytes.size());
  driver_.wait_for = 4;
  Outcome o = read_all(*file, memory);
  EXPECT_EQ(by(o, Route::peer), bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  EXPECT_EQ(driver_.most_at_once, 4u);
  EXPECT_EQ(driver_.devices, std::vector<int>(driver_.calls, memory.device));
  EXPECT_EQ(driver_.largest, 8 * kMiB);
}

TEST_F(Peer, CutsLargeRequestsSoThatACancelledOneEndsSoon) {
  ASSERT_EQ(ftruncate(file_fd_, 512 * kMiB), 0);
  auto file = open_file();
  gpu::Memory memory = vram(512 * kMiB);
  CancelToken token;
  driver_.answer = [&](int64_t) {
    token.cancel(EINTR);
    return Answer{0, UINT64_MAX};
  };
  Outcome o = engine_->run({Direction::read, file.get(), memory, 0, 0, memory.length}, token);
  EXPECT_EQ(o.error, EINTR);
  EXPECT_LE(o.bytes, 4 * 64 * kMiB);
  EXPECT_EQ(driver_.largest, 64 * kMiB);
  EXPECT_LE(driver_.calls, 4u);
}

TEST_F(Peer, LeavesWhatComesBehindAFailureToAnotherRoute) {
  const auto bytes = pattern(32 * kMiB + 777, 92);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = vram(bytes.size());
  for (int64_t failing : {int64_t{0}, int64_t{9 * kMiB}, int64_t{27 * kMiB}}) {
    driver_.answer = [&](int64_t offset) { return offset == failing ? Answer{ENOMEM, kMiB} : Answer{}; };
    fill(memory, marker(memory.length));
    Outcome o = read_all(*file, memory);
    EXPECT_EQ(o.error, 0);
    EXPECT_EQ(o.bytes, bytes.size());
    EXPECT_EQ(o.reason, Reason::failed);
    EXPECT_EQ(by(o, Route::peer), static_cast<uint64_t>(failing) + kMiB);
    EXPECT_EQ(contents(memory), bytes) << failing;
  }
}

TEST_F(Peer, TellsTheFirstErrorOfTheFileWithTheBytesBeforeIt) {
  const auto bytes = pattern(32 * kMiB, 93);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = vram(bytes.size());
  driver_.wait_for = 4;  // so that the others are under way when two of them fail
  driver_.answer = [](int64_t offset) {
    return offset == static_cast<int64_t>(8 * kMiB) || offset == static_cast<int64_t>(24 * kMiB)
               ? Answer{EIO, 65536}
               : Answer{};
  };
  Outcome o = read_all(*file, memory);
  EXPECT_EQ(o.error, EIO);
  EXPECT_EQ(o.bytes, 8 * kMiB + 65536);
  EXPECT_EQ(o.route, Route::peer);
}

// A file that could not be made longer before does not end in what comes behind a failure.
TEST_F(Peer, WritesOneAfterTheOtherWhereEachMovesTheEndOfTheFile) {
  const auto bytes = pattern(32 * kMiB, 94);
  auto file = open_file();
  gpu::Memory memory = vram(bytes.size());
  fill(memory, bytes);
  struct Case {
    bool is_new, limited;
    unsigned at_once;
  };
  for (const Case& c : {Case{true, true, 1}, Case{false, true, 4}, Case{true, false, 4}}) {
    if (c.is_new) {
      ASSERT_EQ(ftruncate(file_fd_, 0), 0);
    }
    limit_file_sizes(c.limited);
    driver_.wait_for = c.at_once;
    driver_.most_at_once = 0;
    Outcome o = run(Direction::write, *file, memory, 0, 0, bytes.size());
    EXPECT_EQ(by(o, Route::peer), bytes.size());
    EXPECT_EQ(driver_.most_at_once, c.at_once);
    EXPECT_EQ(file_bytes(), bytes);
  }
}

TEST_F(Peer, AFileEndsBehindTheLastByteOfAWriteThatFails) {
  const auto bytes = pattern(32 * kMiB, 98);
  gpu::Memory memory = vram(bytes.size());
  fill(memory, bytes);
  for (uint64_t size : {uint64_t{0}, 5 * kMiB, 20 * kMiB}) {
    ASSERT_EQ(ftruncate(file_fd_, 0), 0);
    ASSERT_EQ(ftruncate(file_fd_, static_cast<off_t>(size)), 0);
    auto file = open_file();
    driver_.answer = [](int64_t offset) {
      return offset == static_cast<int64_t>(8 * kMiB) ? Answer{EIO, 65536} : Answer{};
    };
    Outcome o = run(Direction::write, *file, memory, 0, 0, bytes.size());
    EXPECT_EQ(o.error, EIO);
    EXPECT_EQ(o.bytes, 8 * kMiB + 65536);
    EXPECT_EQ(file_bytes().size(), std::max(size, o.bytes));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(o.bytes),
                           file_bytes().begin()));
  }
}

TEST_F(Peer, ThatHangsHoldsNoOtherRequestUp) {
  const auto bytes = pattern(16 * kMiB, 95);
  fill_file(bytes);
  auto file = open_file(), other = another(bytes);
  gpu::Memory memory = vram(bytes.size()), others_memory = vram(bytes.size());
  driver_.hangs = true;
  Outcome hung;
  std::thread thread([&] { hung = read_all(*file, memory); });
  {
    std::unique_lock lock(driver_.mutex);
    driver_.changed.wait(lock, [this] { return driver_.hanging; });
  }
  engine::Request without_peer{Direction::read, other.get(), others_memory, 0, 0, bytes.size()};
  without_peer.routes.remove(Route::peer);
  for (int i = 0; i < 3; i++) EXPECT_EQ(engine_->run(without_peer, CancelToken()).bytes, bytes.size());
  EXPECT_EQ(contents(others_memory), bytes);
  {
    std::lock_guard lock(driver_.mutex);
    driver_.hangs = false;
    driver_.changed.notify_all();
  }
  thread.join();
  EXPECT_EQ(hung.bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
}

TEST_F(Peer, IsLeftAloneWhereItFailsAgainAndAgain) {
  const auto bytes = pattern(kMiB, 96);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = vram(bytes.size());
  driver_.answer = [](int64_t) { return Answer{ENOMEM, 0}; };
  for (unsigned i = 1; i <= 12; i++) {
    Outcome o = read_all(*file, memory);
    EXPECT_EQ(o.bytes, bytes.size());
    EXPECT_EQ(driver_.calls, std::min(i, 8u));
    EXPECT_EQ(o.reason, i <= 8 ? Reason::failed : Reason::failed_before);
  }
}

TEST_F(Peer, IsNotTriedOnAFileSystemWhereSeveralFilesHaveFailed) {
  const auto bytes = pattern(kMiB, 97);
  gpu::Memory memory = vram(bytes.size());
  driver_.answer = [](int64_t) { return Answer{ENODEV, 0}; };
  for (unsigned i = 1; i <= 5; i++) {
    Outcome o = read_all(*another(bytes), memory);
    EXPECT_EQ(o.bytes, bytes.size());
    EXPECT_EQ(driver_.calls, std::min(i, 3u));
    EXPECT_EQ(o.reason, i <= 3 ? Reason::failed : Reason::failed_before);
  }
}

}  // namespace
