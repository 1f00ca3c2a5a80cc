// Two devices: the data of each is moved by streams of its own, whatever device the calling thread has.
#include <algorithm>
#include <thread>

#include "engine_fixture.h"

namespace {

using namespace engine_test;

std::shared_ptr<const gpu::Runtime> loaded() {
  static auto runtime = *gpu::Runtime::load(runtime_name());
  return runtime;
}

std::atomic<int> copies[2], astray{0};

// Notes copies by a stream of another device than the memory's.
hip::Error watched_copy(void* to, const void* from, size_t n, hip::MemcpyKind kind, hip::Stream stream) {
  const void* const memory = kind == hip::kMemcpyHostToDevice ? to : from;
  auto described = gpu::describe(*loaded(), memory);
  hip::Device device = -1;
  if (!described || loaded()->hip().hipStreamGetDevice(stream, &device) != hip::kSuccess ||
      device != described->device)
    astray++;
  else
    copies[device]++;
  return loaded()->hip().hipMemcpyAsync(to, from, n, kind, stream);
}

class EngineTwoDevices : public Engine {
 protected:
  void SetUp() override {
    Engine::SetUp();
    int count = 0;
    loaded()->hip().hipGetDeviceCount(&count);
    if (count < 2) GTEST_SKIP() << "needs two devices";
    gpu::HipTable table = loaded()->hip();
    table.hipMemcpyAsync = watched_copy;
    engine::Config config;
    config.routes = *engine::RouteSet::parse("staged,cached");
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, loaded()->kind(), "watched", loaded()->version(), false),
        config);
    copies[0] = copies[1] = astray = 0;
    for (int d : {0, 1}) {
      EXPECT_EQ(loaded()->hip().hipSetDevice(d), hip::kSuccess);
      memory_.push_back(device(kSize));
      EXPECT_EQ(memory_.back().device, d);
    }
    EXPECT_EQ(loaded()->hip().hipSetDevice(0), hip::kSuccess);
    fill_file(bytes_);
  }
  static constexpr uint64_t kSize = 6 * kMiB;
  const std::vector<char> bytes_ = pattern(kSize, 80);
  std::vector<gpu::Memory> memory_;
};

TEST_F(EngineTwoDevices, EveryWayTakesStreamsOfTheMemorysDevice) {
  auto file = open_file();
  for (bool cached : {true, false})
    for (uint64_t length : {uint64_t{4096}, 64 * 1024 + uint64_t{5}, kSize})
      for (const gpu::Memory& memory : {memory_[1], memory_[0], memory_[1]}) {
        if (!cached) drop_cache();
        fill(memory, marker(kSize));
        ASSERT_EQ(run(Direction::read, *file, memory, 0, 0, length).bytes, length);
        const auto got = contents(memory);
        EXPECT_EQ(memcmp(got.data(), bytes_.data(), length), 0);
        EXPECT_EQ(std::count(got.begin() + static_cast<ptrdiff_t>(length), got.end(), kMarker),
                  static_cast<ptrdiff_t>(kSize - length));
        ASSERT_EQ(run(Direction::write, *file, memory, 0, 0, length).bytes, length);
      }
  EXPECT_EQ(file_bytes(), bytes_);
  EXPECT_EQ(astray, 0);
  EXPECT_GT(copies[0], 0);
  EXPECT_GT(copies[1], 0);
}

TEST_F(EngineTwoDevices, OneBatchMayFillBoth) {
  auto file = open_file(O_RDONLY);
  std::vector<engine::Request> requests;
  for (uint64_t i = 0; i < 32; i++)
    requests.push_back({Direction::read, file.get(), memory_[i % 2], i * 8192, i * 8192, 5000});
  std::vector<char> warm(kSize);
  ASSERT_EQ(pread(file_fd_, warm.data(), kSize, 0), static_cast<ssize_t>(kSize));
  const auto outcomes = engine_->run_all_at_once(requests);
  const std::vector<char> got[] = {contents(memory_[0]), contents(memory_[1])};
  for (size_t i = 0; i < requests.size(); i++) {
    ASSERT_TRUE(outcomes[i]) << i;
    EXPECT_EQ(outcomes[i]->bytes, 5000u);
    EXPECT_EQ(memcmp(&got[i % 2][i * 8192], &bytes_[i * 8192], 5000), 0) << i;
  }
  EXPECT_EQ(astray, 0);
}

TEST_F(EngineTwoDevices, ThreadsOfOneFileFillBothAtOnce) {
  auto file = open_file(O_RDONLY);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; t++)
    threads.emplace_back([&, t] {
      const gpu::Memory& memory = memory_[t % 2];
      std::mt19937_64 random(t);
      for (int i = 0; i < 60; i++) {
        const uint64_t length = 1 + random() % (i % 2 ? 9000 : kMiB), offset = random() % (kSize - length);
        const uint64_t at = t / 2 * 2 * kMiB;  // a part of its own
        if (run(Direction::read, *file, memory, at, offset, length).bytes != length ||
            memcmp(contents(memory).data() + at, &bytes_[offset], length) != 0)
          wrong++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(astray, 0);
}

}  // namespace
