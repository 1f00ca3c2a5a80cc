// Which way the engine's chunks and small requests go, and that many threads make no difference to the bytes.
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>

#include "engine_fixture.h"
#include "storage/page_cache.h"

namespace {

using namespace engine_test;

class EnginePaths : public Engine {
 protected:
  static engine::Config only_staged() {
    engine::Config config;
    config.routes = *engine::RouteSet::parse("staged");
    return config;
  }
  void without_peers() {
    engine::Config config;
    config.routes = *engine::RouteSet::parse("staged,cached");
    make(config);
  }
  void make_with_three_threads(const gpu::HipTable& table) {
    engine::Config config = only_staged();
    config.copy_threads = 3;
    config.slot_bytes = kMiB;
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, runtime()->kind(), "fake", runtime()->version(), false),
        config);
  }
  gpu::Memory vram(uint64_t size) {
    gpu::Memory memory = device(size);
    memory.pages = false;
    return memory;
  }
  // Every second MiB of the file is in the page cache.
  void half_cached(uint64_t size) {
    drop_cache();
    posix_fadvise(file_fd_, 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> bytes(kMiB);
    for (uint64_t at = 0; at < size; at += 2 * kMiB)
      ASSERT_GT(pread(file_fd_, bytes.data(), kMiB, static_cast<off_t>(at)), 0);
  }
  uint64_t cached_pages(uint64_t size) const {
    auto r = storage::residency(file_fd_, 0, size);
    return r ? r->cached_pages : 0;
  }
};

TEST_F(EnginePaths, ReadsTheSameBytesWithManyThreads) {
  for (unsigned threads : {1u, 2u, 7u}) {
    engine::Config config = only_staged();
    config.copy_threads = threads;
    config.slot_bytes = 512 * 1024;
    make(config);
    read_random_extents(25, 50 + threads);
  }
}

TEST_F(EnginePaths, ReadsAFileThatIsHalfInThePageCache) {
  const auto bytes = pattern(24 * kMiB + 321, 61);
  fill_file(bytes);
  make(only_staged());
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  half_cached(bytes.size());
  const uint64_t before = cached_pages(bytes.size());
  if (before == 0 || before * 4096 >= bytes.size())
    GTEST_SKIP() << "the page cache could not be half filled here";
  Outcome o = run(Direction::read, *file, memory, 0, 0, bytes.size());
  EXPECT_EQ(o.bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  // What was not cached went around the cache, but for the last partial block.
  EXPECT_LT(cached_pages(bytes.size()), before + 2 * kMiB / 4096);
}

TEST_F(EnginePaths, NeverMissesDirtyPages) {
  auto bytes = pattern(16 * kMiB, 62);
  fill_file(bytes);
  make(only_staged());
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  for (uint64_t at : {uint64_t{0}, 5 * kMiB + 17, 16 * kMiB - 3}) {
    drop_cache();
    bytes[at] ^= 0x55;
    ASSERT_EQ(pwrite(file_fd_, &bytes[at], 1, static_cast<off_t>(at)), 1);
    ASSERT_EQ(run(Direction::read, *file, memory, 0, 0, bytes.size()).bytes, bytes.size());
    ASSERT_EQ(contents(memory), bytes);
  }
}

TEST_F(EnginePaths, KeepsInTheCacheWhatIsToBeKept) {
  const auto bytes = pattern(12 * kMiB, 63);
  fill_file(bytes);
  engine::Config config = only_staged();
  config.cache_use = engine::CacheUse::keep;
  make(config);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  drop_cache();
  if (cached_pages(bytes.size()) != 0) GTEST_SKIP() << "the page cache could not be emptied here";
  ASSERT_EQ(run(Direction::read, *file, memory, 0, 0, bytes.size()).bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  EXPECT_GT(cached_pages(bytes.size()), bytes.size() / 4096 / 2);  // the kernel may have dropped some by now
}

TEST_F(EnginePaths, LeavesNothingInTheCacheOfWhatIsReadOnce) {
  const auto bytes = pattern(4 * kMiB + 100, 64);
  fill_file(bytes);
  engine::Config config = only_staged();
  config.cache_use = engine::CacheUse::once;
  make(config);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  for (auto [offset, length] : {std::pair<uint64_t, uint64_t>{0, bytes.size()}, {kMiB + 3, 5000}}) {
    drop_cache();
    if (cached_pages(bytes.size()) != 0) GTEST_SKIP() << "the page cache could not be emptied here";
    ASSERT_EQ(run(Direction::read, *file, memory, 0, offset, length).bytes, length);
    EXPECT_EQ(cached_pages(bytes.size()), 0u) << length << " bytes at " << offset;
  }
}

TEST_F(EnginePaths, ReadsSmallExtentsFromManyThreadsAtOnce) {
  const auto bytes = pattern(4 * kMiB, 65);
  fill_file(bytes);
  make();
  auto file = open_file(O_RDONLY);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::vector<gpu::Memory> memories;
  for (int t = 0; t < 8; t++) memories.push_back(device(64 * 1024));
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int i = 0; i < 200; i++) {
        uint64_t length = 1 + random() % memories[t].length, offset = random() % (bytes.size() - length);
        Outcome o = run(Direction::read, *file, memories[t], 0, offset, length);
        if (o.bytes != length || memcmp(contents(memories[t]).data(), &bytes[offset], length) != 0) wrong++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

std::mutex copying_mutex;
std::condition_variable copying_changed;
std::set<std::thread::id> copying_threads;

// Returns once two threads have copied.
hip::Error copy_in_company(void* to, const void* from, size_t n, hip::MemcpyKind kind, hip::Stream stream) {
  {
    std::unique_lock lock(copying_mutex);
    copying_threads.insert(std::this_thread::get_id());
    copying_changed.notify_all();
    copying_changed.wait_for(lock, std::chrono::seconds(20), [] { return copying_threads.size() > 1; });
  }
  static auto software = *gpu::Runtime::load(runtime_name());
  return software->hip().hipMemcpyAsync(to, from, n, kind, stream);
}
std::atomic<int> streams_made{0};
hip::Error counting_stream(hip::Stream* stream, unsigned flags) {
  streams_made++;
  static auto software = *gpu::Runtime::load(runtime_name());
  return software->hip().hipStreamCreateWithFlags(stream, flags);
}

TEST_F(EnginePaths, OtherThreadsHelpToCopyWhatIsInThePageCache) {
  const auto bytes = pattern(16 * kMiB, 67);
  fill_file(bytes);
  gpu::HipTable table = runtime()->hip();
  table.hipMemcpyAsync = copy_in_company;
  make_with_three_threads(table);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = vram(bytes.size());
  copying_threads.clear();
  EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, bytes.size()).bytes, bytes.size());
  EXPECT_EQ(contents(memory), bytes);
  EXPECT_GT(copying_threads.size(), 1u);
}

TEST_F(EnginePaths, MakesNoStreamInARequestOnceADeviceIsPrepared) {
  const auto bytes = pattern(16 * kMiB, 68);
  fill_file(bytes);
  gpu::HipTable table = runtime()->hip();
  table.hipStreamCreateWithFlags = counting_stream;
  make_with_three_threads(table);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = vram(bytes.size());
  engine_->prepare(memory.device);
  const int prepared = streams_made;
  EXPECT_GE(prepared, 4);
  for (uint64_t length : {uint64_t{4096}, bytes.size()})
    EXPECT_EQ(run(Direction::read, *file, memory, 0, 0, length).bytes, length);
  EXPECT_EQ(streams_made, prepared);
}

TEST_F(EnginePaths, ReadsAtOnceOnlyWhatWaitsForNoDisk) {
  const auto bytes = pattern(kMiB + 100, 69);
  fill_file(bytes);
  without_peers();
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  auto at_once = [&](uint64_t offset, uint64_t length) {
    return engine_->run_at_once({Direction::read, file.get(), memory, 0, offset, length});
  };
  drop_cache();
  if (cached_pages(bytes.size()) != 0) GTEST_SKIP() << "the page cache could not be emptied here";
  EXPECT_FALSE(at_once(4096, 5000));
  std::vector<char> got(bytes.size());
  ASSERT_EQ(pread(file_fd_, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  auto outcome = at_once(kMiB - 4000, 5000);  // beyond the end
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->bytes, 4100u);
  EXPECT_EQ(memcmp(contents(memory).data(), &bytes[kMiB - 4000], 4100), 0);
  EXPECT_FALSE(at_once(0, kMiB));  // not small
}

TEST_F(EnginePaths, ReadsOfManyWhatWaitsForNoDisk) {
  const auto bytes = pattern(2 * kMiB, 67);
  fill_file(bytes);
  without_peers();
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  drop_cache();
  posix_fadvise(file_fd_, 0, 0, POSIX_FADV_RANDOM);
  std::vector<char> got(kMiB);
  ASSERT_EQ(pread(file_fd_, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  if (cached_pages(bytes.size()) != kMiB / 4096)
    GTEST_SKIP() << "the page cache could not be half emptied here";
  std::vector<engine::Request> requests;
  for (uint64_t at = 3; at + 5000 <= bytes.size(); at += 50'000)
    requests.push_back({Direction::read, file.get(), memory, at, at, 5000});
  auto outcomes = engine_->run_all_at_once(requests);
  ASSERT_EQ(outcomes.size(), requests.size());
  for (size_t i = 0; i < requests.size(); i++) {
    if (requests[i].file_offset + 5000 <= kMiB) {
      ASSERT_TRUE(outcomes[i]) << i;
      EXPECT_EQ(outcomes[i]->bytes, 5000u);
      EXPECT_EQ(memcmp(&contents(memory)[requests[i].memory_offset], &bytes[requests[i].file_offset], 5000),
                0);
    } else if (requests[i].file_offset >= kMiB) {
      EXPECT_FALSE(outcomes[i]) << i;
    }
  }
}

TEST_F(EnginePaths, ReadsOfManyNothingAtOnceThatTakesLong) {
  const auto bytes = pattern(2 * kMiB, 68);
  fill_file(bytes);
  without_peers();
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(bytes.size());
  std::vector<engine::Request> requests;
  for (uint64_t at = 0; at < engine::kAtOnce; at += engine::kSmall)
    requests.push_back({Direction::read, file.get(), memory, at, at, engine::kSmall});
  for (auto& outcome : engine_->run_all_at_once(requests)) EXPECT_TRUE(outcome);
  requests.push_back({Direction::read, file.get(), memory, kMiB, kMiB, 1});
  for (auto& outcome : engine_->run_all_at_once(requests)) EXPECT_FALSE(outcome);
}

// Of this process, by read calls.
uint64_t bytes_read_so_far() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  io >> name >> bytes;
  return bytes;
}

TEST_F(EnginePaths, ReadsAheadWhatIsNotCachedAndNothingElse) {
  const auto bytes = pattern(4 * kMiB, 65);
  fill_file(bytes);
  auto file = open_file(O_RDONLY);
  drop_cache();
  if (cached_pages(bytes.size()) != 0) GTEST_SKIP() << "the page cache could not be emptied here";
  engine_->read_ahead(*file, kMiB, 2 * kMiB);
  EXPECT_GE(cached_pages(bytes.size()), 2 * kMiB / 4096 - 8);  // the kernel may drop some at any time
  const uint64_t before = bytes_read_so_far();
  engine_->read_ahead(*file, kMiB, 2 * kMiB);
  EXPECT_LT(bytes_read_so_far() - before, kMiB + 4096);
}

TEST_F(EnginePaths, SaysWithoutCachestatWhatIsCached) {
  const auto bytes = pattern(2 * kMiB, 66);
  fill_file(bytes);
  drop_cache();
  if (cached_pages(bytes.size()) != 0) GTEST_SKIP() << "the page cache could not be emptied here";
  EXPECT_TRUE(storage::probe_residency(file_fd_, 0, kMiB).none());
  std::vector<char> got(bytes.size());
  ASSERT_EQ(pread(file_fd_, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_TRUE(storage::probe_residency(file_fd_, 0, kMiB).all());
}

}  // namespace
