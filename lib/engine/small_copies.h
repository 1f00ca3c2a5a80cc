// Small copies to a device by many threads: few are under way at once, and what waits meanwhile goes in one launch.
// Each call of the runtime takes a lock of the driver, which 16 threads otherwise spend their time at.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "engine/small_lanes.h"
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
  SmallCopies(std::shared_ptr<const gpu::Runtime> runtime, kernels::PerDevice* kernels)
      : runtime_(std::move(runtime)), kernels_(kernels) {}

  /// Copies from `lane`'s memory to `device`, which must be the current one, and returns when it is done.
  Result copy(SmallLanes::Use& lane, int device, const kernels::Segment& segment);

 private:
  enum class Turn : int { waits, leads, done };
  struct Waiting {
    kernels::Segment segment;
    std::atomic<Turn> turn{Turn::waits};
    Result result;
    std::vector<Waiting*> group;  // of whoever leads, without itself
    void wait();
    void set(Turn next);
  };
  struct Device {
    std::mutex mutex;
    unsigned leading = 0;
    std::vector<Waiting*> waiting;
  };
  Device& device_of(int device);
  void lead(SmallLanes::Use& lane, int device, Waiting& mine);
  Result run(SmallLanes::Use& lane, int device, std::span<const kernels::Segment> segments);
  static void pass_on(Device& device);

  const std::shared_ptr<const gpu::Runtime> runtime_;
  kernels::PerDevice* const kernels_;
  std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace engine
