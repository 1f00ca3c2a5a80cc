// The engine over the software runtime: every route, every size, every failure. Run once with device memory
// that the CPU can address, and once in strict mode, where a CPU access to it faults.
#include "engine/engine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

namespace {

using engine::CancelToken;
using engine::Direction;
using engine::Outcome;
using engine::Route;

constexpr uint64_t kMiB = 1 << 20;

bool strict() { return getenv("HIP_SOFTWARE_STRICT") != nullptr; }
bool without_ais() { return getenv("HIP_SOFTWARE_NO_AIS") != nullptr; }

std::vector<char> pattern(uint64_t size, uint64_t seed) {
  std::vector<char> bytes(size);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v = random();
    memcpy(&bytes[i], &v, 8);
  }
  for (size_t i = size / 8 * 8; i < size; i++) bytes[i] = static_cast<char>(i);
  return bytes;
}

class Engine : public testing::Test {
 protected:
  static std::shared_ptr<const gpu::Runtime> runtime() {
    static auto loaded = *gpu::Runtime::load("software");
    return loaded;
  }

  void make(const engine::Config& config = {}) {
    engine_ = std::make_unique<engine::Engine>(runtime(), config);
  }
  void SetUp() override {
    make();
    char name[] = "/var/tmp/engine_XXXXXX";
    posix::Fd fd(mkstemp(name));
    path_ = name;
    file_fd_ = fd.release();
  }
  void TearDown() override {
    plan_faults("");
    close(file_fd_);
    unlink(path_.c_str());
    for (void* p : allocated_) runtime()->hip().hipFree(p);
  }

  static void plan_faults(const char* spec) {
    auto plan = reinterpret_cast<int (*)(const char*)>(
        dlsym(dlopen(runtime()->path().c_str(), RTLD_NOW), "hipSoftwarePlanFaults"));
    ASSERT_EQ(plan(spec), 0);
  }

  void fill_file(const std::vector<char>& bytes) {
    ASSERT_EQ(ftruncate(file_fd_, 0), 0);
    ASSERT_EQ(pwrite(file_fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(fsync(file_fd_), 0);
  }
  void drop_cache() { posix_fadvise(file_fd_, 0, 0, POSIX_FADV_DONTNEED); }
  std::vector<char> file_bytes() {
    struct stat st;
    fstat(file_fd_, &st);
    std::vector<char> bytes(static_cast<size_t>(st.st_size));
    EXPECT_EQ(pread(file_fd_, bytes.data(), bytes.size(), 0), st.st_size);
    return bytes;
  }

  std::shared_ptr<const storage::File> open_file(int flags = O_RDWR) {
    auto file = storage::File::open(posix::Fd(open(path_.c_str(), flags | O_CLOEXEC)), engine_->mounts());
    EXPECT_TRUE(file) << file.error().text();
    return *file;
  }

  gpu::Memory device(uint64_t size) {
    void* p = nullptr;
    EXPECT_EQ(runtime()->hip().hipMalloc(&p, size), hip::kSuccess);
    allocated_.push_back(p);
    return *gpu::describe(*runtime(), p);
  }
  static std::vector<char> contents(const gpu::Memory& m) {
    std::vector<char> bytes(m.length);
    EXPECT_EQ(runtime()->hip().hipMemcpy(bytes.data(), m.address, m.length, hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    return bytes;
  }
  static void fill(const gpu::Memory& m, const std::vector<char>& bytes) {
    ASSERT_EQ(runtime()->hip().hipMemcpy(m.address, bytes.data(), bytes.size(), hip::kMemcpyHostToDevice),
              hip::kSuccess);
  }

  Outcome run(Direction direction, const storage::File& file, const gpu::Memory& memory,
              uint64_t memory_offset, uint64_t file_offset, uint64_t length) {
    return engine_->run({direction, &file, memory, memory_offset, file_offset, length}, CancelToken());
  }

  // Random extents of a file, read and compared, with everything around them left alone.
  void read_random_extents(int rounds, uint64_t seed) {
    const std::vector<char> bytes = pattern(13 * kMiB + 777, 1);
    fill_file(bytes);
    auto file = open_file();
    gpu::Memory memory = device(13 * kMiB + 4096);
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; i++) {
      uint64_t length = i % 3 == 0 ? random() % 9000 : random() % (12 * kMiB);
      uint64_t offset = random() % (bytes.size() + 5000);
      uint64_t at = random() % (memory.length - length + 1);
      if (i % 4 == 0) {  // block-aligned, as peer and direct I/O like it
        offset = offset / 4096 * 4096;
        at = at / 4096 * 4096;
      }
      if (i % 2) drop_cache();
      ASSERT_EQ(runtime()->hip().hipMemcpy(memory.address, marker(memory.length).data(), memory.length,
                                           hip::kMemcpyHostToDevice),
                hip::kSuccess);
      Outcome o = run(Direction::read, *file, memory, at, offset, length);
      ASSERT_EQ(o.error, 0) << strerror(o.error);
      uint64_t expected = offset >= bytes.size() ? 0 : std::min(length, bytes.size() - offset);
      ASSERT_EQ(o.bytes, expected) << "offset " << offset << " length " << length;
      auto got = contents(memory);
      ASSERT_EQ(memcmp(&got[at], bytes.data() + offset, expected), 0);
      for (uint64_t j = at > 64 ? at - 64 : 0; j < at; j++) ASSERT_EQ(got[j], kMarker);
      for (uint64_t j = at + expected; j < std::min(at + expected + 64, memory.length); j++)
        ASSERT_EQ(got[j], kMarker);
    }
  }
  void write_random_extents(int rounds, uint64_t seed) {
    std::vector<char> expected = pattern(9 * kMiB + 333, 2);
    fill_file(expected);
    auto file = open_file();
    const std::vector<char> source = pattern(9 * kMiB, seed);
    gpu::Memory memory = device(source.size());
    fill(memory, source);
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; i++) {
      uint64_t length = 1 + random() % (i % 3 == 0 ? 9000 : 6 * kMiB);
      uint64_t offset = random() % (10 * kMiB), at = random() % (source.size() - length + 1);
      if (i % 4 == 0) {
        offset = offset / 4096 * 4096;
        at = at / 4096 * 4096;
      }
      Outcome o = run(Direction::write, *file, memory, at, offset, length);
      ASSERT_EQ(o.error, 0) << strerror(o.error);
      ASSERT_EQ(o.bytes, length);
      if (expected.size() < offset + length) expected.resize(offset + length);
      memcpy(&expected[offset], &source[at], length);
      if (i % 5 == 0) {
        ASSERT_EQ(file_bytes(), expected) << "after round " << i;
      }
    }
    EXPECT_EQ(file_bytes(), expected);
  }

  static constexpr char kMarker = 0x5a;
  static const std::vector<char>& marker(uint64_t size) {
    static std::vector<char> bytes;
    bytes.resize(size, kMarker);
    return bytes;
  }

  std::unique_ptr<engine::Engine> engine_;
  std::string path_;
  int file_fd_ = -1;
  std::vector<void*> allocated_;
};

// What holds only where the CPU can address device memory, and only where it cannot.
class EnginePages : public Engine {};
class EngineStrict : public Engine {};

TEST_F(Engine, ReadsAnyExtentByTheBestRoute) { read_random_extents(60, 11); }
TEST_F(Engine, WritesAnyExtentByTheBestRoute) { write_random_extents(40, 12); }

TEST_F(Engine, ReadsAnyExtentStaged) {
  engine::Config config;
  config.routes = *engine::RouteSet::parse("staged");
  make(config);
  read_random_extents(60, 21);
}
TEST_F(Engine, WritesAnyExtentStaged) {
  engine::Config config;
  config.routes = *engine::RouteSet::parse("staged");
  make(config);
  write_random_extents(40, 22);
}
TEST_F(Engine, MovesDataWithThreadsWhereIoUringIsRefused) {
  engine::Config config;
  config.io_uring = false;
  config.depth = 4;
  make(config);
  read_random_extents(30, 31);
  write_random_extents(20, 32);
}
TEST_F(Engine, MovesDataWithASingleSmallSlot) {
  engine::Config config;
  config.routes = *engine::RouteSet::parse("staged");
  config.slot_bytes = config.pool_bytes = 64 * 1024;
  make(config);
  read_random_extents(20, 41);
  write_random_extents(20, 42);
  EXPECT_EQ(engine_->pinned_bytes(), 64u * 1024);
}

// Pinned memory with more behind it, to see what writes beyond a slot.
char* arena() {
  alignas(4096) static char bytes[4 * kMiB];
  return bytes;
}
hip::Error malloc_in_arena(void** p, size_t, unsigned) {
  *p = arena();
  return hip::kSuccess;
}
hip::Error free_in_arena(void*) { return hip::kSuccess; }

TEST_F(Engine, ReadsManySmallExtentsAtOnceWhateverASlotHolds) {
  const auto bytes = pattern(2 * kMiB, 43);
  fill_file(bytes);
  auto file = open_file(O_RDONLY);
  gpu::HipTable table = runtime()->hip();
  table.hipHostMalloc = malloc_in_arena;
  table.hipHostFree = free_in_arena;
  for (uint64_t slot : {uint64_t{4096}, 60 * uint64_t{1024}, kMiB}) {
    engine::Config config;
    config.routes = *engine::RouteSet::parse("staged");
    config.slot_bytes = config.pool_bytes = slot;
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", runtime()->version(), false),
        config);
    gpu::Memory memory = device(bytes.size());
    memory.pages = false;
    memset(arena(), 0x5a, 4 * kMiB);
    std::vector<engine::Request> requests;
    for (uint64_t at = 0; at < bytes.size(); at += 65536)
      requests.push_back({Direction::read, file.get(), memory, at, at, 65536, engine::RouteSet::all()});
    for (const Outcome& o : engine_->run_all(requests, CancelToken())) EXPECT_EQ(o.result(), 65536);
    EXPECT_EQ(contents(memory), bytes);
    EXPECT_NE(arena()[0], 0x5a) << "nothing was staged";
    for (uint64_t i = slot; i < 4 * kMiB; i++) ASSERT_EQ(arena()[i], 0x5a) << i << " with slots of " << slot;
  }
}

TEST_F(Engine, NamesTheRouteOfAColdAlignedRead) {
  const auto bytes = pattern(8 * kMiB, 3);
  fill_file(bytes);
  drop_cache();
  auto file = open_file(O_RDONLY);
  if (file->facts().offset_align == 0) GTEST_SKIP() << "no O_DIRECT on " << file->facts().file_system;
  gpu::Memory memory = device(bytes.size());
  Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  if (!strict()) {
    EXPECT_EQ(o.route, Route::pages);
    EXPECT_EQ(o.reason, engine::Reason::host_pages);
  } else if (without_ais()) {
    EXPECT_EQ(o.route, Route::staged);
    EXPECT_EQ(o.reason, engine::Reason::no_runtime_ais);
  } else if (file->facts().peer == storage::PeerSupport::yes) {
    EXPECT_EQ(o.route, Route::peer);
    EXPECT_EQ(o.reason, engine::Reason::none);
  }
}

TEST_F(EnginePages, TakesWhatIsInThePageCacheFromThere) {
  const auto bytes = pattern(8 * kMiB, 3);
  fill_file(bytes);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  EXPECT_EQ(o.route, Route::cached);
}

TEST_F(Engine, SeesDataThatIsNotYetOnDisk) {
  auto bytes = pattern(4 * kMiB, 4);
  fill_file(bytes);
  drop_cache();
  const auto fresh = pattern(kMiB, 5);
  ASSERT_EQ(pwrite(file_fd_, fresh.data(), fresh.size(), kMiB), static_cast<ssize_t>(fresh.size()));
  memcpy(&bytes[kMiB], fresh.data(), fresh.size());
  auto file = open_file();
  gpu::Memory memory = device(bytes.size());
  EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, bytes.size()).bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
}

TEST_F(Engine, ReadsNothingAtAndBeyondTheEnd) {
  fill_file(pattern(1000, 6));
  auto file = open_file();
  gpu::Memory memory = device(kMiB);
  for (uint64_t offset : {uint64_t{1000}, uint64_t{4096}, uint64_t{1} << 40}) {
    Outcome o = run(Direction::read, *file, memory, 0, offset, kMiB);
    EXPECT_EQ(o.bytes, 0u);
    EXPECT_EQ(o.error, 0);
  }
  EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, 0).bytes, 0u);
}

TEST_F(Engine, WritesBeyondTheEndAndLeavesAHole) {
  fill_file(pattern(100, 7));
  auto file = open_file();
  gpu::Memory memory = device(1000);
  const auto bytes = pattern(1000, 8);
  fill(memory, bytes);
  EXPECT_EQ(run(Direction::write, *file, memory, 0, 5 * kMiB, 1000).bytes, 1000u);
  auto all = file_bytes();
  ASSERT_EQ(all.size(), 5 * kMiB + 1000);
  EXPECT_EQ(memcmp(&all[5 * kMiB], bytes.data(), 1000), 0);
  EXPECT_EQ(all[2 * kMiB], 0);
}

TEST_F(Engine, MovesMoreThanFourGiBAtOffsetsBeyondFourGiB) {
  constexpr uint64_t kStart = (6ull << 30) + 4096, kSize = (4ull << 30) + 12345;
  ASSERT_EQ(ftruncate(file_fd_, kStart + kSize + 999), 0);
  const auto mark = pattern(4096, 9);
  for (uint64_t at : {uint64_t{0}, kSize - 4096})
    ASSERT_EQ(pwrite(file_fd_, mark.data(), mark.size(), static_cast<off_t>(kStart + at)), 4096);
  auto file = open_file();
  gpu::Memory memory = device(kSize);
  Outcome o = run(Direction::read, *file, memory, 0, kStart, kSize);
  EXPECT_EQ(o.error, 0);
  EXPECT_EQ(o.bytes, kSize);
  std::vector<char> part(4096);
  for (uint64_t at : {uint64_t{0}, kSize - 4096}) {
    ASSERT_EQ(runtime()->hip().hipMemcpy(part.data(), memory.address + at, 4096, hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    EXPECT_EQ(part, mark);
  }
}

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

TEST_F(EngineStrict, StagesMemoryThatOnlyClaimsToBePages) {
  const auto bytes = pattern(3 * kMiB + 5, 16);
  fill_file(bytes);
  drop_cache();
  auto file = open_file();
  gpu::Memory memory = device(bytes.size());
  memory.pages = true;  // as an APU's would be
  Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(o.bytes, bytes.size());
  // Staged; the attempt on the pages may have left the file in the page cache.
  EXPECT_TRUE(o.route == Route::staged || o.route == Route::cached) << engine::name(o.route);
  EXPECT_EQ(contents(memory), bytes);
}

TEST_F(Engine, FetchCopiesMemoryToTheHost) {
  const auto bytes = pattern(9 * kMiB + 1, 17);
  gpu::Memory memory = device(bytes.size());
  fill(memory, bytes);
  std::vector<char> out(5 * kMiB);
  EXPECT_EQ(engine_->fetch(memory, 1 * kMiB + 3, out.data(), out.size()), 0);
  EXPECT_EQ(memcmp(out.data(), &bytes[kMiB + 3], out.size()), 0);
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

TEST_F(Engine, ServesManyThreadsAtOnceWithASmallPool) {
  engine::Config config;
  config.routes = *engine::RouteSet::parse("staged");
  config.slot_bytes = 256 * 1024;
  config.pool_bytes = 3 * config.slot_bytes;
  make(config);
  const auto bytes = pattern(6 * kMiB, 20);
  fill_file(bytes);
  auto file = open_file();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, memory = device(bytes.size())] {
      for (int i = 0; i < 4; i++)
        EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, bytes.size()).bytes, bytes.size());
      EXPECT_EQ(contents(memory), bytes);
    });
  for (auto& t : threads) t.join();
  EXPECT_LE(engine_->pinned_bytes(), config.pool_bytes);
}

TEST_F(Engine, LeavesTheCurrentDeviceAlone) {
  fill_file(pattern(kMiB, 23));
  auto file = open_file();
  gpu::Memory memory = device(kMiB);
  int before = -1, after = -1;
  runtime()->hip().hipGetDevice(&before);
  run(Direction::read, *file, memory, 0, 0, kMiB);
  runtime()->hip().hipGetDevice(&after);
  EXPECT_EQ(before, after);
}

TEST(EngineWithoutRuntime, ServesMemoryThatIsPages) {
  engine::Engine engine(nullptr, {});
  char name[] = "/var/tmp/engine_XXXXXX";
  posix::Fd fd(mkstemp(name));
  unlink(name);
  const auto bytes = pattern(3 * kMiB, 24);
  ASSERT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  auto file = storage::File::open(std::move(fd), engine.mounts());
  ASSERT_TRUE(file);
  std::vector<char> memory(bytes.size());
  gpu::Memory target{memory.data(), memory.size(), gpu::MemoryKind::host, -1, true};
  EXPECT_EQ(engine.run({Direction::read, file->get(), target, 0, 0, bytes.size()}, CancelToken()).bytes,
            bytes.size());
  EXPECT_EQ(memory, bytes);
  target.kind = gpu::MemoryKind::device;
  target.pages = false;
  EXPECT_EQ(engine.run({Direction::read, file->get(), target, 0, 0, 10}, CancelToken()).result(),
            -EOPNOTSUPP);
}

}  // namespace
