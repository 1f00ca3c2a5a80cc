// Many small reads at once: where they go in a slot, and how they leave it.
#include "engine/small_reads.h"

#include <algorithm>

#include "engine_fixture.h"
#include "kernels/code_objects.h"

namespace {

using namespace engine_test;
using engine::SmallRead;
using engine::SmallReadContext;

SmallRead read_to(uintptr_t address, uint32_t length) {
  return {nullptr, reinterpret_cast<char*>(address), 0, length};  // NOLINT(performance-no-int-to-ptr)
}

TEST(SlotLayout, PutsWhatFollowsOnTheDeviceBehindEachOther) {
  const std::vector<SmallRead> reads{read_to(4096, 100), read_to(4196, 50), read_to(9000, 16)};
  auto layout = engine::lay_out(reads, 64 * 1024);
  EXPECT_EQ(layout.at, (std::vector<size_t>{0, 100, 160 + 9000 % 16}));
  EXPECT_EQ(layout.segments_at % 16, 0u);
  EXPECT_GE(layout.segments_at, layout.at.back() + 16);
}

TEST(SlotLayout, KeepsTheRemainderModulo16) {
  for (uintptr_t address = 1000; address < 1032; address++) {
    const std::vector<SmallRead> reads{read_to(4096, 7), read_to(address, 33)};
    EXPECT_EQ(engine::lay_out(reads, 4096).at[1] % 16, address % 16);
  }
}

TEST(SlotLayout, LeavesRoomForTheSegments) {
  std::vector<SmallRead> reads;
  for (uintptr_t i = 0; i < 100; i++) reads.push_back(read_to(i * 10000, 4096));
  auto layout = engine::lay_out(reads, 64 * 1024);
  ASSERT_LT(layout.at.size(), reads.size());
  EXPECT_LE(layout.segments_at + layout.at.size() * sizeof(kernels::Segment), 64u * 1024);
}

// A runtime whose kernels are this.
int launches = 0;
hip::Error load_module(hip::Module* module, const void*) {
  *module = reinterpret_cast<hip::Module>(&launches);
  return hip::kSuccess;
}
hip::Error unload_module(hip::Module) { return hip::kSuccess; }
hip::Error get_function(hip::Function* function, hip::Module, const char*) {
  *function = reinterpret_cast<hip::Function>(&launches);
  return hip::kSuccess;
}
hip::Error refuse_launch(hip::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         hip::Stream, void**, void**) {
  launches++;
  return hip::kErrorLaunchFailure;
}
hip::Error launch(hip::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  hip::Stream stream, void** parameters, void**) {
  launches++;
  const auto* segments = *static_cast<const kernels::Segment**>(parameters[0]);
  const auto count = *static_cast<const uint32_t*>(parameters[1]);
  auto runtime = *gpu::Runtime::load("software");
  for (uint32_t i = 0; i < count; i++)
    runtime->hip().hipMemcpyAsync(segments[i].destination, segments[i].source, segments[i].length,
                                  hip::kMemcpyHostToDevice, stream);
  return hip::kSuccess;
}

class SmallReads : public Engine, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Engine::SetUp();
    launches = 0;
    const std::string how = GetParam();
    gpu::HipTable table = runtime()->hip();
    if (how != "without_kernels") {
      table.hipModuleLoadData = load_module;
      table.hipModuleUnload = unload_module;
      table.hipModuleGetFunction = get_function;
      table.hipModuleLaunchKernel = how == "kernels" ? launch : refuse_launch;
    }
    engine::Config config;
    config.routes = *engine::RouteSet::parse("staged");
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::cuda, "fake", runtime()->version(), false),
        config);
  }
};

TEST_P(SmallReads, ReachTheirPlacesWhateverTheirShape) {
  const auto bytes = pattern(3 * kMiB + 11, 90);
  fill_file(bytes);
  auto file = open_file(O_RDONLY);
  gpu::Memory memory = device(8 * kMiB);
  memory.pages = false;
  std::mt19937_64 random(91);
  for (int round = 0; round < 10; round++) {
    fill(memory, marker(memory.length));
    std::vector<char> expected = marker(memory.length);
    std::vector<engine::Request> requests;
    uint64_t at = 0;
    while (requests.size() < 150) {
      const uint64_t length = 1 + random() % (round % 2 ? 300 : 20000);
      const uint64_t offset = random() % bytes.size();
      requests.push_back({Direction::read, file.get(), memory, at, offset, length});
      const uint64_t moved = std::min(length, bytes.size() - offset);
      memcpy(&expected[at], &bytes[offset], moved);
      at += length + (random() % 3 ? 0 : random() % 50);
    }
    auto outcomes = engine_->run_all(requests, CancelToken());
    for (size_t i = 0; i < requests.size(); i++) {
      ASSERT_EQ(outcomes[i].error, 0);
      ASSERT_EQ(outcomes[i].bytes, std::min(requests[i].length, bytes.size() - requests[i].file_offset));
    }
    ASSERT_EQ(contents(memory), expected) << "round " << round;
  }
  const bool can_launch = !kernels::ptx().empty() && std::string(GetParam()) != "without_kernels";
  EXPECT_EQ(launches > 0, can_launch);
}

INSTANTIATE_TEST_SUITE_P(By, SmallReads, testing::Values("kernels", "kernels_that_fail", "without_kernels"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
