// What goes wrong under the engine: files that shrink, full disks, cancelled requests, HIP calls that fail.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "engine_fixture.h"

namespace {

using namespace engine_test;

TEST_F(Engine, StopsAtTheNewEndOfAFileThatShrinksMeanwhile) {
  const auto bytes = pattern(32 * kMiB, 10);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = device(bytes.size());
  std::atomic<bool> stop{false};
  std::thread shrinker([&] {
    for (int i = 0; !stop; i++) {
      if (ftruncate(file_fd_, static_cast<off_t>(i % 2 ? bytes.size() : 7 * kMiB + 11)) < 0) return;
      usleep(500);
    }
  });
  for (int i = 0; i < 20; i++) {
    Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
    EXPECT_EQ(o.error, 0) << strerror(o.error);
    EXPECT_GE(o.bytes, 7 * kMiB + 11);
    EXPECT_LE(o.bytes, bytes.size());
    auto got = contents(memory);
    ASSERT_EQ(memcmp(got.data(), bytes.data(), 7 * kMiB + 11), 0);
  }
  stop = true;
  shrinker.join();
}

TEST_F(Engine, ReportsErrorsOfTheFileAndMovesNothing) {
  fill_file(pattern(kMiB, 13));
  gpu::Memory memory = device(kMiB);
  Outcome o = run(Direction::write, *open_file(O_RDONLY), memory, 0, 0, kMiB);
  EXPECT_EQ(o.result(), -EBADF);
  o = run(Direction::read, *open_file(O_WRONLY), memory, 0, 0, kMiB);
  EXPECT_EQ(o.result(), -EBADF);
}

TEST_F(Engine, ReportsWhatWasWrittenBeforeTheDiskWasFull) {
  posix::Fd full(open("/dev/full", O_RDWR));
  auto file = storage::File::open(std::move(full), engine_->mounts());
  ASSERT_TRUE(file);
  gpu::Memory memory = device(4096);
  Outcome o = run(Direction::write, **file, memory, 0, 0, 4096);
  EXPECT_EQ(o.result(), -ENOSPC);
}

TEST_F(Engine, CancelledRequestMovesNothingMore) {
  fill_file(pattern(kMiB, 14));
  auto file = open_file();
  gpu::Memory memory = device(kMiB);
  CancelToken token;
  token.cancel(EINTR);
  Outcome o = engine_->run({Direction::read, file.get(), memory, 0, 0, kMiB}, token);
  EXPECT_EQ(o.result(), -EINTR);
}

TEST_F(Engine, CancellingARunningRequestGivesTheBytesDone) {
  ASSERT_EQ(ftruncate(file_fd_, 2ll << 30), 0);
  auto file = open_file();
  gpu::Memory memory = device(2ull << 30);
  CancelToken token;
  std::thread canceller([&] {
    usleep(20000);
    token.cancel(EINTR);
  });
  Outcome o = engine_->run({Direction::read, file.get(), memory, 0, 0, 2ull << 30}, token);
  canceller.join();
  if (o.bytes == 2ull << 30)
    EXPECT_EQ(o.error, 0);
  else
    EXPECT_EQ(o.error, EINTR);
}

TEST_F(Engine, MemoryThatItsOwnerCutsOffIsAnErrorNotACrash) {
  fill_file(pattern(kMiB, 15));
  auto file = open_file();
  posix::Fd fd(memfd_create("engine_test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), kMiB), 0);
  void* p = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(p, MAP_FAILED);
  ASSERT_EQ(ftruncate(fd.get(), 0), 0);
  gpu::Memory memory{static_cast<char*>(p), kMiB, gpu::MemoryKind::host, -1, true};
  EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, kMiB).result(), -EFAULT);
  EXPECT_EQ(run(Direction::write, *file, memory, 0, 0, kMiB).result(), -EFAULT);
  char byte;
  EXPECT_EQ(engine_->fetch(memory, 0, &byte, 1), EFAULT);
  munmap(p, kMiB);
}

// What the kernel can answer, by way of hipAmdFileRead's status.
struct PeerAnswer {
  int status;       // errno, 0: a HIP error without a status
  uint64_t copied;  // bytes moved before
  bool fails_over;
  bool remembered;
};
thread_local PeerAnswer peer_answer;
std::atomic<int> peer_calls{0};

hip::Error answering_read(hip::AmdFileHandle, void*, uint64_t size, int64_t, uint64_t* copied,
                          int32_t* status) {
  peer_calls++;
  *copied = std::min(size, peer_answer.copied);
  *status = -peer_answer.status;
  return peer_answer.status == 0 && *copied == size ? hip::kSuccess : hip::kErrorUnknown;
}

class PeerFailure : public Engine, public testing::WithParamInterface<PeerAnswer> {};

TEST_P(PeerFailure, FailsOverInsideTheRequestOrIsReported) {
  const auto bytes = pattern(2 * kMiB, 18);
  fill_file(bytes);
  drop_cache();
  gpu::HipTable table = runtime()->hip();
  table.hipAmdFileRead = answering_read;
  table.hipAmdFileWrite = answering_read;
  auto fake =
      std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", runtime()->version(), false);
  engine::Config config;
  config.peer_on_any_file_system = true;
  engine_ = std::make_unique<engine::Engine>(fake, config);
  auto file = open_file();
  if (file->facts().offset_align == 0) GTEST_SKIP() << "no O_DIRECT on " << file->facts().file_system;
  gpu::Memory memory = device(bytes.size());
  memory.pages = false;
  peer_answer = GetParam();
  peer_calls = 0;
  Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(peer_calls, 1);
  if (!GetParam().fails_over) {
    EXPECT_EQ(o.error, GetParam().status);
    EXPECT_EQ(o.bytes, GetParam().copied);
    return;
  }
  EXPECT_EQ(o.error, 0);
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(o.reason, engine::Reason::failed);
  if (GetParam().copied == 0) {
    EXPECT_EQ(contents(memory), bytes);
  }
  o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(peer_calls, GetParam().remembered ? 1 : 2);
  EXPECT_EQ(o.reason, GetParam().remembered ? engine::Reason::failed_before : engine::Reason::failed);
}

INSTANTIATE_TEST_SUITE_P(
    Answers, PeerFailure,
    testing::Values(PeerAnswer{ENODEV, 0, true, true}, PeerAnswer{EREMOTEIO, 0, true, true},
                    PeerAnswer{ENOTTY, 0, true, true}, PeerAnswer{EOPNOTSUPP, 0, true, true},
                    PeerAnswer{EINVAL, 0, true, false}, PeerAnswer{EFAULT, 0, true, false},
                    PeerAnswer{EPERM, 0, true, false}, PeerAnswer{ENOMEM, 0, true, false},
                    PeerAnswer{0, 0, true, false}, PeerAnswer{0, 65536, true, false},
                    PeerAnswer{EIO, 0, false, false}, PeerAnswer{EIO, 65536, false, false}),
    [](const auto& info) {
      const char* name = info.param.status ? strerrorname_np(info.param.status) : "no_status";
      return std::string(name) + (info.param.copied ? "_in_the_middle" : "");
    });

// Each HIP call that a request makes fails once: the request fails over or fails, and the next one works.
TEST_F(Engine, SurvivesTheFailureOfEveryHipCall) {
  const auto bytes = pattern(9 * kMiB + 100, 19);
  for (Direction direction : {Direction::read, Direction::write})
    for (const char* call : {"hipGetDevice", "hipSetDevice", "hipHostMalloc", "hipStreamCreateWithFlags",
                             "hipMemcpyAsync", "hipEventCreateWithFlags", "hipEventRecord", "hipEventQuery",
                             "hipEventSynchronize", "hipAmdFileRead", "hipAmdFileWrite"})
      for (int turn : {1, 2, 3}) {
        engine::Config config;
        config.slot_bytes = kMiB;
        make(config);
        fill_file(bytes);
        auto file = open_file();
        gpu::Memory memory = device(bytes.size());
        fill(memory, bytes);
        plan_faults((std::string(call) + ":" + std::to_string(turn)).c_str());
        Outcome o = run(direction, *file, memory, 0, 0, bytes.size());
        plan_faults("");
        EXPECT_TRUE(o.bytes == bytes.size() || o.error != 0) << call << " " << turn;
        o = run(direction, *file, memory, 0, 0, bytes.size());
        EXPECT_EQ(o.bytes, bytes.size()) << call << " " << turn;
        EXPECT_EQ(contents(memory), bytes) << call << " " << turn;
        EXPECT_EQ(file_bytes(), bytes) << call << " " << turn;
        runtime()->hip().hipFree(allocated_.back());
        allocated_.pop_back();
      }
}

}  // namespace
