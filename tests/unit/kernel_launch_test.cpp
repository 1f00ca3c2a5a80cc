// How kernels are loaded and launched, on a table of functions that records its calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/launch.h"

namespace {

using kernels::Grid;

struct Launched {
  hip::Function function;
  Grid grid;
  unsigned depth, threads_x, threads_y, threads_z, shared_bytes;
  hip::Stream stream;
};

// The functions carry no context, so what they record is here.
struct Record {
  std::vector<std::string> calls;
  std::vector<Launched> launches;
  const kernels::Segment* segments = nullptr;
  uint32_t count = 0;
  Grid told{};
  kernels::Crc32cPlan plan{};
  uint32_t* remainders = nullptr;
  const void* image = nullptr;
  std::map<std::string, hip::Error> failures;
  intptr_t modules = 0;
  int errors_cleared = 0;
} record;

const auto kCopy = reinterpret_cast<hip::Function>(0x100), kCrc32c = reinterpret_cast<hip::Function>(0x200);

hip::Error answer(const std::string& call) {
  record.calls.push_back(call);
  auto failure = record.failures.find(call);
  return failure == record.failures.end() ? hip::kSuccess : failure->second;
}

std::string number(hip::Module module) { return std::to_string(reinterpret_cast<intptr_t>(module)); }

hip::Error load_data(hip::Module* module, const void* image) {
  record.image = image;
  if (hip::Error e = answer("load"); e != hip::kSuccess) return e;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough for others to ask meanwhile
  *module = reinterpret_cast<hip::Module>(++record.modules);
  return hip::kSuccess;
}
hip::Error unload(hip::Module module) { return answer("unload " + number(module)); }
hip::Error get_function(hip::Function* function, hip::Module module, const char* name) {
  if (hip::Error e = answer(number(module) + " " + name); e != hip::kSuccess) return e;
  *function = std::string(name) == "hipfile_copy_segments" ? kCopy : kCrc32c;
  return hip::kSuccess;
}
hip::Error launch_kernel(hip::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                         hip::Stream stream, void** parameters, void** extra) {
  EXPECT_EQ(extra, nullptr);
  record.launches.push_back({function, {grid_x, grid_y}, grid_z, block_x, block_y, block_z, shared, stream});
  if (function == kCopy) {
    record.segments = *static_cast<const kernels::Segment**>(parameters[0]);
    record.count = *static_cast<uint32_t*>(parameters[1]);
    record.told = {*static_cast<uint32_t*>(parameters[2]), *static_cast<uint32_t*>(parameters[3])};
  } else {
    record.plan = *static_cast<kernels::Crc32cPlan*>(parameters[0]);
    record.remainders = *static_cast<uint32_t**>(parameters[1]);
  }
  return answer("launch");
}
hip::Error last_error() {
  record.errors_cleared++;
  return hip::kSuccess;
}

class KernelLaunch : public testing::Test {
 protected:
  KernelLaunch() { record = {}; }
  kernels::Kernels load() { return *kernels::Kernels::load(functions_, image_); }

  using Calls = std::vector<std::string>;
  kernels::Functions functions_{load_data, unload, get_function, launch_kernel, last_error};
  const std::vector<std::byte> image_ = std::vector<std::byte>(8);
  const hip::Stream stream_ = reinterpret_cast<hip::Stream>(0x300);
};

TEST_F(KernelLaunch, LoadsTheImageAndFindsBothKernelsAndUnloadsAtTheEnd) {
  {
    auto loaded = load();
    EXPECT_EQ(record.image, image_.data());
    EXPECT_EQ(record.calls, (Calls{"load", "1 hipfile_copy_segments", "1 hipfile_crc32c"}));
    auto moved = std::move(loaded);
    EXPECT_EQ(record.calls.size(), 3u);
  }
  EXPECT_EQ(record.calls.back(), "unload 1");
  EXPECT_EQ(record.calls.size(), 4u);
  EXPECT_EQ(record.errors_cleared, 0);
}

TEST_F(KernelLaunch, SaysThatThereAreNoneWithoutAnImageOrWithoutAFunction) {
  EXPECT_EQ(kernels::Kernels::load(functions_, {}).error(), hip::kErrorNotSupported);
  auto without = [&](auto member) {
    kernels::Functions functions = functions_;
    functions.*member = nullptr;
    return kernels::Kernels::load(functions, image_).error();
  };
  EXPECT_EQ(without(&kernels::Functions::hipModuleLoadData), hip::kErrorNotSupported);
  EXPECT_EQ(without(&kernels::Functions::hipModuleUnload), hip::kErrorNotSupported);
  EXPECT_EQ(without(&kernels::Functions::hipModuleGetFunction), hip::kErrorNotSupported);
  EXPECT_EQ(without(&kernels::Functions::hipModuleLaunchKernel), hip::kErrorNotSupported);
  EXPECT_EQ(without(&kernels::Functions::hipGetLastError), hip::kErrorNotSupported);
  EXPECT_EQ(record.calls, Calls{});
}

TEST_F(KernelLaunch, PassesOnWhyADeviceCannotLoadThem) {
  record.failures["load"] = hip::kErrorNoBinaryForGpu;
  EXPECT_EQ(kernels::Kernels::load(functions_, image_).error(), hip::kErrorNoBinaryForGpu);
  EXPECT_EQ(record.calls, Calls{"load"});
  EXPECT_EQ(record.errors_cleared, 1);
}

TEST_F(KernelLaunch, UnloadsAModuleThatLacksAKernel) {
  record.failures["1 hipfile_crc32c"] = hip::kErrorNotFound;
  EXPECT_EQ(kernels::Kernels::load(functions_, image_).error(), hip::kErrorNotFound);
  EXPECT_EQ(record.calls.back(), "unload 1");
  EXPECT_EQ(record.errors_cleared, 1);
}

TEST_F(KernelLaunch, CopiesAllSegmentsInOneLaunch) {
  auto loaded = load();
  std::vector<kernels::Segment> segments(100, {nullptr, nullptr, 4096});
  segments[7].length = 3 * kernels::kCopyTile;
  ASSERT_EQ(loaded.copy(segments, stream_), hip::kSuccess);
  ASSERT_EQ(record.launches.size(), 1u);
  const Launched& l = record.launches[0];
  EXPECT_EQ(l.function, kCopy);
  EXPECT_EQ(l.grid, kernels::copy_grid(100, 3 * kernels::kCopyTile));
  EXPECT_EQ(record.told, l.grid) << "the kernel must know the grid that it runs on";
  EXPECT_EQ(l.depth, 1u);
  EXPECT_EQ(l.threads_x, kernels::kThreads);
  EXPECT_EQ(l.threads_y * l.threads_z, 1u);
  EXPECT_EQ(l.shared_bytes, 0u);
  EXPECT_EQ(l.stream, stream_);
  EXPECT_EQ(record.segments, segments.data());
  EXPECT_EQ(record.count, 100u);
}

TEST_F(KernelLaunch, LaunchesNothingWhereThereIsNothingToDo) {
  auto loaded = load();
  EXPECT_EQ(loaded.copy({}, stream_), hip::kSuccess);
  std::vector<kernels::Segment> empty(3, {nullptr, nullptr, 0});
  EXPECT_EQ(loaded.copy(empty, stream_), hip::kSuccess);
  EXPECT_EQ(loaded.crc32c(kernels::Crc32cPlan::of(4096, 0), nullptr, stream_), hip::kSuccess);
  EXPECT_EQ(record.launches.size(), 0u);
}

TEST_F(KernelLaunch, StartsABlockForEachRemainder) {
  auto loaded = load();
  uint32_t remainders[kernels::kCrc32cMostBlocks];
  const auto plan = kernels::Crc32cPlan::of(4097, 10 << 20);
  ASSERT_EQ(loaded.crc32c(plan, remainders, stream_), hip::kSuccess);
  ASSERT_EQ(record.launches.size(), 1u);
  const Launched& l = record.launches[0];
  EXPECT_EQ(l.function, kCrc32c);
  EXPECT_EQ(l.grid, (Grid{plan.blocks, 1}));
  EXPECT_GT(plan.blocks, 1u);
  EXPECT_EQ(l.threads_x, kernels::kThreads);
  EXPECT_EQ(l.stream, stream_);
  EXPECT_EQ(memcmp(&record.plan, &plan, sizeof plan), 0);
  EXPECT_EQ(record.remainders, remainders);
}

TEST_F(KernelLaunch, PassesOnWhyALaunchFailed) {
  auto loaded = load();
  record.failures["launch"] = hip::kErrorLaunchFailure;
  std::vector<kernels::Segment> segments(1, {nullptr, nullptr, 1});
  EXPECT_EQ(loaded.copy(segments, stream_), hip::kErrorLaunchFailure);
  EXPECT_EQ(loaded.crc32c(kernels::Crc32cPlan::of(0, 1), nullptr, stream_), hip::kErrorLaunchFailure);
  EXPECT_EQ(record.errors_cleared, 2);
}

TEST_F(KernelLaunch, LoadsOncePerDeviceWhoeverAsks) {
  {
    kernels::PerDevice all(functions_, image_);
    std::vector<std::jthread> threads;
    std::array<const kernels::Kernels*, 8> found{};
    for (size_t i = 0; i < found.size(); i++)
      threads.emplace_back([&, i] { found[i] = *all.of(static_cast<int>(i % 2)); });
    threads.clear();
    for (size_t i = 2; i < found.size(); i++) EXPECT_EQ(found[i], found[i % 2]);
    EXPECT_NE(found[0], found[1]);
    EXPECT_EQ(record.modules, 2);
  }
  EXPECT_EQ(std::count(record.calls.begin(), record.calls.end(), "unload 1"), 1);
  EXPECT_EQ(std::count(record.calls.begin(), record.calls.end(), "unload 2"), 1);
}

TEST_F(KernelLaunch, RemembersADeviceThatCannotLoadThem) {
  kernels::PerDevice all(functions_, image_);
  record.failures["load"] = hip::kErrorNoBinaryForGpu;
  EXPECT_EQ(all.of(0).error(), hip::kErrorNoBinaryForGpu);
  record.failures.clear();
  EXPECT_EQ(all.of(0).error(), hip::kErrorNoBinaryForGpu);
  EXPECT_TRUE(all.of(1));
  EXPECT_EQ(std::count(record.calls.begin(), record.calls.end(), "load"), 2);
}

TEST(CopyGrid, HasABlockForEachSmallSegmentUpToALimit) {
  EXPECT_EQ(kernels::copy_grid(1, 1), (Grid{1, 1}));
  EXPECT_EQ(kernels::copy_grid(64, 4096), (Grid{1, 64}));
  EXPECT_EQ(kernels::copy_grid(4096, 4096), (Grid{1, kernels::kCopyMostBlocks}));
  EXPECT_EQ(kernels::copy_grid(UINT32_MAX, 1), (Grid{1, kernels::kCopyMostBlocks}));
}

TEST(CopyGrid, DividesLongSegmentsAndKeepsManyInWork) {
  EXPECT_EQ(kernels::copy_grid(1, kernels::kCopyTile), (Grid{1, 1}));
  EXPECT_EQ(kernels::copy_grid(1, kernels::kCopyTile + 1), (Grid{2, 1}));
  EXPECT_EQ(kernels::copy_grid(1, uint64_t{1} << 40), (Grid{kernels::kCopyMostBlocks, 1}));
  EXPECT_EQ(kernels::copy_grid(1000, uint64_t{1} << 40),
            (Grid{kernels::kCopyMostBlocks / kernels::kCopySegmentsAtOnce, kernels::kCopySegmentsAtOnce}));
  for (uint32_t count : {1u, 3u, 63u, 65u, 513u, 100000u})
    for (uint64_t longest = 1; longest < (uint64_t{1} << 36); longest *= 3) {
      const Grid grid = kernels::copy_grid(count, longest);
      EXPECT_GE(grid.x, 1u);
      EXPECT_GE(grid.y, std::min(count, kernels::kCopySegmentsAtOnce));
      EXPECT_LE(grid.y, count);
      EXPECT_LE(grid.x * grid.y, kernels::kCopyMostBlocks);
    }
}

}  // namespace
