// Parts of files that stay mapped for the device, over the software runtime.
#include "engine/file_windows.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "engine_fixture.h"

namespace {

using namespace engine_test;
using engine::FileWindows;

constexpr uint64_t kWindow = FileWindows::kWindow;

class Windows : public Engine {
 protected:
  void SetUp() override {
    Engine::SetUp();
    config_.window_bytes = 4 * kWindow;
    config_.routes = *engine::RouteSet::parse("staged,cached");
    make(config_);
  }
  // A file that nobody has open for writing, changed a while ago.
  std::shared_ptr<const storage::File> quiet_file(const std::vector<char>& bytes) {
    fill_file(bytes);
    close(file_fd_);
    file_fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    return open_file(O_RDONLY);
  }
  gpu::Memory not_pages(uint64_t size) {
    gpu::Memory memory = device(size);
    memory.pages = false;
    return memory;
  }
  Outcome read_all(const storage::File& file, const gpu::Memory& memory) {
    return run(Direction::read, file, memory, 0, 0, memory.length);
  }
  // By itself the kernel drops a page now and then, which a direct read does not bring back.
  static void fill_page_cache(const storage::File& file) {
    std::vector<char> bytes(kMiB);
    for (off_t at = 0; pread(file.buffered(), bytes.data(), bytes.size(), at) > 0; at += kMiB) {
    }
  }
  // A window that cannot be opened now is tried again after two more reads.
  static void until(const std::function<bool()>& done, const std::function<void()>& read) {
    for (int i = 0; i < 200 && !done(); i++) {
      if (i % 20 == 0)
        for (int twice = 0; twice < 2; twice++) read();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // Reads until the windows are open.
  void open_windows(const storage::File& file, const gpu::Memory& memory) {
    until([&] { return engine_->window_bytes() >= memory.length; },
          [&] {
            fill_page_cache(file);
            read_all(file, memory);
          });
    ASSERT_EQ(engine_->window_bytes(), memory.length);
  }
  void rewrite(uint64_t at, char byte) const {
    posix::Fd fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)), 1);
  }
  static bool opened(FileWindows& windows, const storage::File& file, uint64_t length) {
    bool seen = false;
    until([&] { return seen |= windows.are_open(file, 0, length); },
          [&] {
            fill_page_cache(file);
            windows.count(file, 0, length);
            windows.ask(file, 0, length);
          });
    return seen;
  }
  engine::Config config_;
};

TEST_F(Windows, AreOpenedByTheSecondReadAndServeTheThird) {
  const auto bytes = pattern(kWindow + 3 * kMiB + 5, 71);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  EXPECT_EQ(read_all(*file, memory).bytes, bytes.size());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(engine_->window_bytes(), 0u);
  open_windows(*file, memory);
  fill(memory, marker(memory.length));
  Outcome o = read_all(*file, memory);
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(o.route, Route::cached);
  EXPECT_EQ(contents(memory), bytes);
  engine_->drop_windows();
  EXPECT_EQ(engine_->window_bytes(), 0u);
}

TEST_F(Windows, ServeAnyPartOfTheFile) {
  const auto bytes = pattern(kWindow + 3 * kMiB, 72);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  open_windows(*file, memory);
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; i++) {
    const uint64_t length = kMiB + random() % (8 * kMiB);
    const uint64_t offset = i == 0 ? kWindow - kMiB : random() % bytes.size();
    fill(memory, marker(memory.length));
    Outcome o = run(Direction::read, *file, memory, 0, offset, std::min(length, memory.length));
    const uint64_t expected = std::min(std::min(length, memory.length), bytes.size() - offset);
    ASSERT_EQ(o.bytes, expected);
    auto got = contents(memory);
    ASSERT_EQ(memcmp(got.data(), &bytes[offset], expected), 0);
    ASSERT_EQ(got[expected], kMarker);
  }
}

TEST_F(Windows, AreReadFromByThreadsThatMustNotWait) {
  const auto bytes = pattern(8 * kMiB + 5, 75);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  auto at_once = [&](uint64_t offset, uint64_t length) {
    return engine_->run_at_once({Direction::read, file.get(), memory, 0, offset, length});
  };
  EXPECT_FALSE(at_once(kMiB, kMiB));
  open_windows(*file, memory);
  fill(memory, marker(memory.length));
  auto outcome = at_once(kMiB + 7, kMiB + 9);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->bytes, kMiB + 9);
  EXPECT_EQ(outcome->route, Route::cached);
  EXPECT_EQ(memcmp(contents(memory).data(), &bytes[kMiB + 7], kMiB + 9), 0);
  EXPECT_EQ(contents(memory)[kMiB + 9], kMarker);
  EXPECT_FALSE(at_once(0, 4 * kMiB));  // takes too long
  auto at_end = at_once(7 * kMiB, 2 * kMiB);
  ASSERT_TRUE(at_end);
  EXPECT_EQ(at_end->bytes, kMiB + 5);
}

TEST_F(Windows, AreDroppedWhenTheFileChanges) {
  auto bytes = pattern(8 * kMiB, 73);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  open_windows(*file, memory);
  bytes[5000] ^= 1;
  rewrite(5000, bytes[5000]);
  EXPECT_EQ(read_all(*file, memory).bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  EXPECT_EQ(engine_->window_bytes(), 0u);
}

TEST_F(Windows, DoNotServeWhatAShorterFileHasLost) {
  const auto bytes = pattern(8 * kMiB, 74);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  open_windows(*file, memory);
  ASSERT_EQ(truncate(path_.c_str(), 3 * kMiB + 1), 0);
  Outcome o = read_all(*file, memory);
  EXPECT_EQ(o.error, 0);
  EXPECT_EQ(o.bytes, 3 * kMiB + 1);
}

TEST_F(Windows, AreNotOpenedWhileSomebodyMayWrite) {
  const auto bytes = pattern(8 * kMiB, 75);
  auto file = quiet_file(bytes);
  posix::Fd writer(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  gpu::Memory memory = not_pages(bytes.size());
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(read_all(*file, memory).bytes, bytes.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(engine_->window_bytes(), 0u);
  }
}

TEST_F(Windows, StayWithinTheirBudget) {
  config_.window_bytes = kWindow;
  make(config_);
  const auto bytes = pattern(2 * kWindow, 76);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(read_all(*file, memory).bytes, bytes.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(engine_->window_bytes(), *config_.window_bytes);
  }
  EXPECT_EQ(contents(memory), bytes);
}

TEST_F(Windows, AreOpenedInAPauseOfReading) {
  const auto bytes = pattern(8 * kMiB, 81);
  auto file = quiet_file(bytes);
  FileWindows windows(runtime(), 4 * kWindow, {std::chrono::minutes(1), std::chrono::minutes(1)});
  {
    FileWindows::Reading another(windows);
    windows.count(*file, 0, bytes.size());
    windows.ask(*file, 0, bytes.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(windows.bytes(), 0u);
  }
  EXPECT_TRUE(opened(windows, *file, bytes.size()));
}

TEST_F(Windows, AreOpenedAtLastWhereReadingNeverPauses) {
  const auto bytes = pattern(8 * kMiB, 82);
  auto file = quiet_file(bytes);
  FileWindows windows(runtime(), 4 * kWindow, {std::chrono::minutes(1), std::chrono::milliseconds(50)});
  FileWindows::Reading another(windows);
  EXPECT_TRUE(opened(windows, *file, bytes.size()));
}

TEST_F(Windows, AreNotOpenedByAskingWhatWouldHappen) {
  const auto bytes = pattern(8 * kMiB, 83);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  read_all(*file, memory);
  for (int i = 0; i < 3; i++) engine_->explain({Direction::read, file.get(), memory, 0, 0, bytes.size()});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(engine_->window_bytes(), 0u);
}

TEST_F(Windows, GoWhenTheyAreNotUsed) {
  const auto bytes = pattern(8 * kMiB, 77);
  auto file = quiet_file(bytes);
  FileWindows windows(runtime(), 4 * kWindow, engine::WindowPatience{std::chrono::milliseconds(100)});
  ASSERT_TRUE(opened(windows, *file, bytes.size()));
  for (int i = 0; i < 100 && windows.bytes() > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(windows.bytes(), 0u);
}

TEST_F(Windows, GoWithTheFilesLastName) {
  const auto bytes = pattern(8 * kMiB, 78);
  auto file = quiet_file(bytes);
  FileWindows windows(runtime(), 4 * kWindow, engine::WindowPatience{std::chrono::seconds(6)});
  ASSERT_TRUE(opened(windows, *file, bytes.size()));
  unlink(path_.c_str());
  for (int i = 0; i < 200 && windows.bytes() > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(windows.bytes(), 0u);
}

TEST_F(Windows, WhoseCopyFailsLeaveTheReadToAnotherRoute) {
  const auto bytes = pattern(8 * kMiB, 79);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  open_windows(*file, memory);
  plan_faults("hipMemcpyAsync:1");
  // Which is not for a thread that must not wait.
  EXPECT_FALSE(engine_->run_at_once({Direction::read, file.get(), memory, 0, 0, kMiB}));
  plan_faults("hipMemcpyAsync:1");
  Outcome o = read_all(*file, memory);
  EXPECT_EQ(o.error, 0);
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
}

TEST_F(Windows, AreOffWhereTheRuntimeIsNotKnownToGainByThem) {
  config_.window_bytes.reset();
  make(config_);
  const auto bytes = pattern(8 * kMiB, 80);
  auto file = quiet_file(bytes);
  gpu::Memory memory = not_pages(bytes.size());
  for (int i = 0; i < 3; i++) read_all(*file, memory);
  EXPECT_EQ(engine_->window_bytes(), 0u);
}

}  // namespace
