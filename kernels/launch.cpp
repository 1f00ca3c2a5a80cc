#include "kernels/launch.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kernels {

Grid copy_grid(uint32 count, uint64 longest) {
  const uint32 at_once = std::min(count, kCopySegmentsAtOnce);
  const uint64 tiles = (longest + kCopyTile - 1) / kCopyTile;
  const uint32 x = static_cast<uint32>(std::clamp<uint64>(tiles, 1, kCopyMostBlocks / at_once));
  return {x, std::min(count, kCopyMostBlocks / x)};
}

tl::expected<Kernels, hip::Error> Kernels::load(const Functions& functions,
                                                std::span<const std::byte> image) {
  if (image.empty() || !functions.complete()) return tl::unexpected(hip::kErrorNotSupported);
  auto failure = [&](hip::Error error) {
    functions.hipGetLastError();
    return tl::unexpected(error);
  };
  hip::Module handle = nullptr;
  if (hip::Error e = functions.hipModuleLoadData(&handle, image.data()); e != hip::kSuccess)
    return failure(e);
  Module module(handle, {functions});
  hip::Function copy = nullptr, crc32c = nullptr;
  for (auto [function, name] : {std::pair{&copy, "hipfile_copy_segments"}, {&crc32c, "hipfile_crc32c"}})
    if (hip::Error e = functions.hipModuleGetFunction(function, handle, name); e != hip::kSuccess)
      return failure(e);
  return Kernels(std::move(module), copy, crc32c);
}

hip::Error Kernels::launch(hip::Function function, const Grid& grid, void** parameters,
                           hip::Stream stream) const {
  const Functions& hip = module_.get_deleter().functions;
  hip::Error e =
      hip.hipModuleLaunchKernel(function, grid.x, grid.y, 1, kThreads, 1, 1, 0, stream, parameters, nullptr);
  if (e != hip::kSuccess) hip.hipGetLastError();
  return e;
}

hip::Error Kernels::copy(std::span<const Segment> segments, hip::Stream stream) const {
  if (segments.size() > std::numeric_limits<uint32>::max()) return hip::kErrorInvalidValue;
  uint64 longest = 0;
  for (const Segment& segment : segments) longest = std::max(longest, segment.length);
  if (longest == 0) return hip::kSuccess;
  const Segment* list = segments.data();
  auto count = static_cast<uint32>(segments.size());
  Grid grid = copy_grid(count, longest);
  void* parameters[] = {&list, &count, &grid.x, &grid.y};
  return launch(copy_, grid, parameters, stream);
}

hip::Error Kernels::crc32c(const Crc32cPlan& plan, uint32_t* remainders, hip::Stream stream) const {
  if (plan.blocks == 0) return hip::kSuccess;
  Crc32cPlan by_value = plan;
  void* parameters[] = {&by_value, &remainders};
  return launch(crc32c_, {plan.blocks, 1}, parameters, stream);
}

tl::expected<const Kernels*, hip::Error> PerDevice::of(int device) {
  std::lock_guard lock(mutex_);
  auto found = loaded_.find(device);
  if (found == loaded_.end()) found = loaded_.emplace(device, Kernels::load(functions_, image_)).first;
  if (!found->second) return tl::unexpected(found->second.error());
  return &*found->second;
}

}  // namespace kernels
