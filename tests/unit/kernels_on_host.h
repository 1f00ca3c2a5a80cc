// Runs device code as a GPU would, one thread after the other, phase by phase where there are barriers.
#pragma once

#include <memory>
#include <vector>

#include "kernels/launch.h"

namespace kernels_on_host {

inline void copy(std::span<const kernels::Segment> segments, const kernels::Grid& grid) {
  for (uint32_t y = 0; y < grid.y; y++)
    for (uint32_t x = 0; x < grid.x; x++)
      for (uint32_t thread = 0; thread < kernels::kThreads; thread++)
        kernels::copy_segments(segments.data(), static_cast<uint32_t>(segments.size()),
                               {thread, x, y, grid.x, grid.y});
}

inline uint32_t crc32c(const void* data, uint64_t length) {
  const auto plan = kernels::Crc32cPlan::of(reinterpret_cast<uint64_t>(data), length);
  std::vector<uint32_t> remainders(plan.blocks);
  auto shared = std::make_unique<kernels::Crc32cShared>();
  auto each_thread = [](auto phase) {
    for (uint32_t thread = 0; thread < kernels::kThreads; thread++) phase(thread);
  };
  for (uint32_t block = 0; block < plan.blocks; block++) {
    each_thread([&](uint32_t thread) { kernels::crc32c_prepare(*shared, thread); });
    each_thread([&](uint32_t thread) { kernels::crc32c_accumulate(plan, *shared, block, thread); });
    each_thread([&](uint32_t thread) { kernels::crc32c_fold(*shared, thread); });
    each_thread([&](uint32_t thread) { kernels::crc32c_store(*shared, remainders.data(), block, thread); });
  }
  return kernels::crc32c_of(plan, remainders.data());
}

}  // namespace kernels_on_host
