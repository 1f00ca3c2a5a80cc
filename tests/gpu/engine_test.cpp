// The engine on a GPU: every byte at its place, whatever size, alignment, route and state of the file. The file is in
// HIPFILE_TEST_DIR if that is set, otherwise on a volume of the file system that HIPFILE_TEST_FS names.
#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>

#include "engine_fixture.h"
#include "gpu.h"
#include "mounted.h"

namespace {

using namespace engine_test;

class GpuFiles : public Engine {
 protected:
  void SetUp() override {
    if (auto why = gpu_test::missing(); !why.empty()) GTEST_SKIP() << why;
    if (!getenv("HIPFILE_TEST_DIR")) {
      if (geteuid() != 0) GTEST_SKIP() << "needs root, or HIPFILE_TEST_DIR";
      if (overlay::Volume::instance().path().empty()) GTEST_SKIP() << overlay::Volume::instance().problem();
      setenv("HIPFILE_TEST_DIR", overlay::Volume::instance().path().c_str(), 1);
    }
    Engine::SetUp();
  }
  void TearDown() override {
    if (engine_) Engine::TearDown();
  }
};

class GpuEngine : public GpuFiles, public testing::WithParamInterface<const char*> {
 protected:
  engine::Config config() const {
    engine::Config c;
    if (std::string(GetParam()) == "staged") c.routes = *engine::RouteSet::parse("staged");
    if (std::string(GetParam()) == "without_uring") c.io_uring = false;
    return c;
  }
};

constexpr uint64_t kSizes[] = {1,      511,      512,  4095,          4096,      4097,      65536,
                               262144, kMiB - 1, kMiB, 3 * kMiB + 77, 16 * kMiB, 64 * kMiB, 64 * kMiB + 1};
struct Places {
  uint64_t file, memory;
};
constexpr Places kPlaces[] = {{0, 0}, {4096, 8192}, {1, 0}, {0, 1}, {777, 333}};
constexpr uint64_t kSpace = 64 * kMiB + 16384;

TEST_P(GpuEngine, ReadsEverySizeAtEveryAlignmentCachedAndCold) {
  make(config());
  const auto bytes = pattern(kSpace, 1);
  fill_file(bytes);
  auto file = open_file();
  gpu::Memory memory = device(kSpace);
  std::map<Route, int> routes;
  for (uint64_t size : kSizes)
    for (auto place : kPlaces)
      for (bool cold : {false, true}) {
        if (cold) drop_cache();
        ASSERT_EQ(runtime()->hip().hipMemset(memory.address, kMarker, kSpace), hip::kSuccess);
        Outcome o = run(Direction::read, *file, memory, place.memory, place.file, size);
        ASSERT_EQ(o.error, 0) << strerror(o.error) << " size " << size;
        ASSERT_EQ(o.bytes, size);
        routes[o.route]++;
        auto got = contents(memory);
        ASSERT_EQ(memcmp(&got[place.memory], &bytes[place.file], size), 0)
            << "size " << size << " file " << place.file << " memory " << place.memory << " cold " << cold;
        for (uint64_t i = 0; i < place.memory; i++) ASSERT_EQ(got[i], kMarker);
        for (uint64_t i = place.memory + size; i < std::min(place.memory + size + 4096, kSpace); i++)
          ASSERT_EQ(got[i], kMarker) << "size " << size;
      }
  for (auto [route, count] : routes)
    std::cout << "route " << static_cast<int>(route) << ": " << count << "\n";
  EXPECT_FALSE(routes.contains(Route::pages));  // device memory of a GPU is none
}

TEST_P(GpuEngine, WritesEverySizeAtEveryAlignment) {
  make(config());
  const auto bytes = pattern(kSpace, 2);
  gpu::Memory memory = device(kSpace);
  fill(memory, bytes);
  for (uint64_t size : kSizes)
    for (auto place : kPlaces) {
      std::vector<char> expected = pattern(place.file + size / 2 + 1, 3);  // half of it is new
      fill_file(expected);
      auto file = open_file();
      Outcome o = run(Direction::write, *file, memory, place.memory, place.file, size);
      ASSERT_EQ(o.error, 0) << strerror(o.error) << " size " << size;
      ASSERT_EQ(o.bytes, size);
      expected.resize(std::max<uint64_t>(expected.size(), place.file + size));
      memcpy(&expected[place.file], &bytes[place.memory], size);
      ASSERT_EQ(file_bytes(), expected) << "size " << size << " file " << place.file;
    }
}

TEST_P(GpuEngine, ReadsAndWritesRandomExtents) {
  make(config());
  read_random_extents(60, 11);
  write_random_extents(40, 12);
}

TEST_P(GpuEngine, ManyThreadsReadAtOnce) {
  make(config());
  const auto bytes = pattern(32 * kMiB + 5, 4);
  fill_file(bytes);
  auto file = open_file();
  constexpr uint64_t kThreads = 12;
  gpu::Memory memory = device(kThreads * 4 * kMiB);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 40; i++) {
        uint64_t length = 1 + random() % (i % 2 ? 9000 : 4 * kMiB),
                 offset = random() % (bytes.size() - length);
        Outcome o = run(Direction::read, *file, memory, t * 4 * kMiB, offset, length);
        std::vector<char> got(length);
        if (o.error || o.bytes != length ||
            runtime()->hip().hipMemcpy(got.data(), memory.address + t * 4 * kMiB, length,
                                       hip::kMemcpyDeviceToHost) != hip::kSuccess ||
            memcmp(got.data(), &bytes[offset], length) != 0)
          wrong++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Configs, GpuEngine, testing::Values("all", "staged", "without_uring"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GpuFiles, PinnedAndManagedMemoryIsReadIntoStraight) {
  make();
  const auto bytes = pattern(8 * kMiB + 100, 6);
  fill_file(bytes);
  auto file = open_file();
  auto read_into = [&](void* p) {
    auto memory = gpu::describe(*runtime(), p);
    ASSERT_TRUE(memory);
    memset(p, 0, bytes.size());
    Outcome o = run(Direction::read, *file, *memory, 0, 0, bytes.size());
    EXPECT_EQ(o.error, 0) << strerror(o.error);
    EXPECT_EQ(o.bytes, bytes.size());
    EXPECT_EQ(memcmp(p, bytes.data(), bytes.size()), 0);
    std::cout << "route " << static_cast<int>(o.route) << "\n";
  };
  void *pinned = nullptr, *managed = nullptr;
  ASSERT_EQ(runtime()->hip().hipHostMalloc(&pinned, 9 * kMiB, 0), hip::kSuccess);
  drop_cache();
  read_into(pinned);
  runtime()->hip().hipHostFree(pinned);
  if (gpu_test::call("hipMallocManaged", &managed, 9 * kMiB, 1u) != hip::kSuccess) return;
  drop_cache();
  read_into(managed);
  runtime()->hip().hipFree(managed);
}

}  // namespace

int main(int argc, char** argv) {
  setenv("HIPFILE_TEST_RUNTIME", "auto", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
