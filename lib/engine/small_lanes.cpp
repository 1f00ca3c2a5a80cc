#include "engine/small_lanes.h"

#include <functional>
#include <thread>

namespace engine {
namespace {

constexpr size_t kSlotsToSpare = 8;
constexpr size_t kLane = kSmall + 4096;  // with its list
static_assert(SmallLanes::kListed * sizeof(kernels::Segment) <= kLane - kSmall);

}  // namespace

void SmallLanes::make() {
  if (!pool_ || pool_->most_slots() < kSlotsToSpare) return;
  auto slot = pool_->acquire();
  if (!slot) return;
  for (size_t at = 0; at + kLane <= slot->size(); at += kLane) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->data = slot->data() + at;
  }
  slot_.emplace(std::move(*slot));
}

std::optional<SmallLanes::Use> SmallLanes::take() {
  std::call_once(once_, [this] { make(); });
  const size_t first = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (size_t i = 0; i < lanes_.size(); i++) {
    Lane& lane = *lanes_[(first + i) % lanes_.size()];
    if (!lane.busy.load(std::memory_order_relaxed) && !lane.busy.exchange(true, std::memory_order_acquire))
      return Use(&lane);
  }
  return std::nullopt;
}

}  // namespace engine
