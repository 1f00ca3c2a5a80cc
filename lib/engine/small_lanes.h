// Pinned memory for small requests, as many pieces as there are threads that need one: a small request waits for no
// other and allocates nothing.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/plan.h"
#include "gpu/pinned_pool.h"
#include "kernels/copy.h"

namespace engine {

/// Thread-safe.
class SmallLanes {
  struct alignas(64) Lane {
    std::atomic<bool> busy{false};
    char* data = nullptr;
  };

 public:
  /// `pool`: one of its slots is taken with the first use, for good. Null: there are no lanes.
  explicit SmallLanes(gpu::PinnedPool* pool) : pool_(pool) {}
  SmallLanes(const SmallLanes&) = delete;
  SmallLanes& operator=(const SmallLanes&) = delete;

  /// Segments that a lane has room to list.
  static constexpr size_t kListed = 64;

  /// A lane that one thread has for itself.
  class Use {
   public:
    Use(Use&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (lane_) lane_->busy.store(false, std::memory_order_release);
    }
    /// kSmall bytes, pinned.
    char* data() const { return lane_->data; }
    /// Room for kListed segments, pinned.
    kernels::Segment* list() const { return reinterpret_cast<kernels::Segment*>(lane_->data + kSmall); }
    /// Nobody gets the lane any more, because a copy may still be using its memory.
    void abandon() { lane_ = nullptr; }

   private:
    friend class SmallLanes;
    explicit Use(Lane* lane) : lane_(lane) {}
    Lane* lane_;
  };

  /// A free lane, if possible the one that this thread had last. Nothing if all are in use or there are none: pools of a
  /// few slots have none to spare.
  std::optional<Use> take();

 private:
  void make();

  gpu::PinnedPool* const pool_;
  std::once_flag once_;
  std::optional<gpu::PinnedSlot> slot_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace engine
