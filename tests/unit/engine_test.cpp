// The engine over the software runtime: every route, every size, every failure. Run once with device memory
// that the CPU can address, and once in strict mode, where a CPU access to it faults.
#include <dlfcn.h>
#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <thread>

#include "engine_fixture.h"

namespace {

using namespace engine_test;

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
    EXPECT_EQ(o.reason, engine::Reason::none);
  } else if (without_ais()) {
    EXPECT_EQ(o.route, Route::staged);
    EXPECT_EQ(o.reason, engine::Reason::no_runtime_ais);
  } else if (engine::refuse_file(file->facts(), {false, false}) == engine::Reason::none) {
    EXPECT_EQ(o.route, Route::peer);
    EXPECT_EQ(o.reason, engine::Reason::none);
  }
}

TEST_F(Engine, LogsOnceWhichWayDataGoesAndWhy) {
  std::ostringstream log;
  auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const auto bytes = pattern(4 * kMiB, 3);
  fill_file(bytes);
  engine::Config config;
  config.routes = *engine::RouteSet::parse("staged,cached");
  config.cache_use = engine::CacheUse::keep;  // so that they all go one way
  make(config);
  auto file = open_file();
  gpu::Memory memory = device(bytes.size());
  for (int i = 0; i < 3; i++) run(Direction::read, *file, memory, 0, 0, bytes.size());
  run(Direction::read, *file, memory, 0, 0, 4096);
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  const size_t said = text.find("reads of device ");
  ASSERT_NE(said, std::string::npos) << text;
  EXPECT_NE(text.find("peer: ", said), std::string::npos) << text;
  EXPECT_EQ(text.find("reads of device ", said + 1), std::string::npos) << text;
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
