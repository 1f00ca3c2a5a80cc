// Small copies to a device by many threads: few are under way at once, and what waits meanwhile goes in one launch.
// Each call of the runtime takes a lock of the driver, which 16 threads otherwise spend their time at.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/small_lanes.h"
#include "gpu/stream.h"
#include "kernels/launch.h"

namespace engine {

/// Thread-safe.
class SmallCopies {
 public:
  struct Result {
    hip::Error error = hip::kSuccess;
    bool settled = true;  ///< false: the copy may be running still; its source must not be used again
  };

  /// `kernels` may be null.
  SmallCopies(std::shared_ptr<const gpu::Runtime> runtime, kernels::PerDevice* kernels, int devices);

  /// Copies from `lane`'s memory to `device`, below `devices` and the current one, and returns when it is done.
  Result copy(SmallLanes::Use& lane, int device, const kernels::Segment& segment);
  /// Makes the streams of `device`, which must be the current one, ahead of their use.
  void prepare(int device);

 private:
  enum class Turn : int { waits, leads, done };
  struct Waiting {
    kernels::Segment segment;
    std::atomic<Turn> turn{Turn::waits};
    Result result;
    std::array<Waiting*, SmallLanes::kListed> group;  // of whoever leads, without itself
    size_t group_size = 0;
    size_t stream = 0;  // to lead with
    void wait();
    void set(Turn next);
  };
  static constexpr size_t kLeaders = 4;  // enough to hide the latency of one behind another's
  struct Device {
    std::mutex mutex;
    std::vector<size_t> free;  // of the streams
    std::vector<Waiting*> waiting;
    std::array<std::optional<gpu::Stream>, kLeaders> streams;  // each used by who leads with it
  };
  hip::Error make(std::optional<gpu::Stream>& stream) const;
  void lead(SmallLanes::Use& lane, int device, Device& state, Waiting& mine);
  Result run(SmallLanes::Use& lane, int device, std::optional<gpu::Stream>& stream,
             std::span<const kernels::Segment> segments);
  static void pass_on(Device& device, size_t stream);

  const std::shared_ptr<const gpu::Runtime> runtime_;
  kernels::PerDevice* const kernels_;
  const std::unique_ptr<Device[]> devices_;
};

}  // namespace engine
