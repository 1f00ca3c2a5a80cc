// One request from file to memory or back: planned, carried out, moved to the next route when one fails.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/breakers.h"
#include "engine/cancel.h"
#include "engine/config.h"
#include "engine/file_windows.h"
#include "engine/lane_pool.h"
#include "engine/plan.h"
#include "engine/route_log.h"
#include "engine/small_copies.h"
#include "engine/small_io.h"
#include "engine/small_lanes.h"
#include "engine/team.h"
#include "engine/transfer.h"
#include "engine/verdict.h"
#include "gpu/large_bar.h"
#include "gpu/pinned_pool.h"
#include "kernels/launch.h"

namespace engine {

struct Request {
  Direction direction = Direction::read;
  const storage::File* file = nullptr;
  gpu::Memory memory;          ///< the buffer
  uint64_t memory_offset = 0;  ///< the caller has checked that [offset, offset + length) lies in the buffer
  uint64_t file_offset = 0;    ///< file_offset + length <= 2^63 - 1
  uint64_t length = 0;
  RouteSet routes = RouteSet::all();  ///< of those that the configuration allows

  /// Leaves what comes behind the first `bytes`.
  void advance(uint64_t bytes) {
    memory_offset += bytes;
    file_offset += bytes;
    length -= bytes;
  }
};

struct Outcome {
  uint64_t bytes = 0;                    ///< moved, from the start of the request without a gap
  int error = 0;                         ///< errno that ended the request early; 0 at end of file
  hip::Error hip_error = hip::kSuccess;  ///< of the HIP call that failed, if one did
  Route route =
      Route::none;  ///< that moved most of the bytes; if none were moved, the last one that was tried
  Reason reason = Reason::none;              ///< why not the best one for such memory
  std::array<uint64_t, kRoutes> by_route{};  ///< the bytes, by the route that moved them

  /// Bytes, or -errno if nothing was moved.
  int64_t result() const { return bytes > 0 || error == 0 ? static_cast<int64_t>(bytes) : -error; }
};

/// Bytes of one read that run_at_once() may take.
inline constexpr uint64_t kAtOnceByDevice = 2 << 20;
/// Bytes that run_all_at_once() may take together: some 100 us of work.
inline constexpr uint64_t kAtOnce = 512 << 10;

/// Thread-safe. Requests run on the thread that calls.
class Engine {
 public:
  /// `runtime` may be null: then only memory that is CPU-addressable pages can be served.
  Engine(std::shared_ptr<const gpu::Runtime> runtime, const Config& config);

  /// What one request at a time needs; comes back to the engine with run().
  std::unique_ptr<Lane> lease();
  Outcome run(const Request& request, const CancelToken& cancel);
  Outcome run(const Request& request, const CancelToken& cancel, std::unique_ptr<Lane> lane);
  /// A read that takes some 10 to 50 us, if no disk has to be waited for: for threads that others need. That is a small
  /// one, or one of up to kAtOnceByDevice bytes that the device fetches by itself. Nothing if there is a disk to wait for,
  /// or if the request goes another way; it is to be run() then, some of its bytes may have arrived.
  std::optional<Outcome> run_at_once(const Request& request);
  /// Many requests at once: small reads share one submission, the rest are carried out one after the other.
  std::vector<Outcome> run_all(const std::vector<Request>& requests, const CancelToken& cancel);
  /// The small reads among them that wait for no disk, in one go; nothing for the others, nor for any if they are more
  /// than kAtOnce bytes.
  std::vector<std::optional<Outcome>> run_all_at_once(const std::vector<Request>& requests);
  /// Makes the streams of a device that requests will need. To be called before a stream of the program is made to wait
  /// for a request: runtimes may make no streams while one waits.
  void prepare(int device);
  /// Reads what is missing of a range into the page cache; nothing where the configuration wants nothing there.
  void read_ahead(const storage::File& file, uint64_t offset, uint64_t length) const;
  /// Copies [offset, offset + length) of memory to the host; 0 or an errno.
  int fetch(const gpu::Memory& memory, uint64_t offset, char* out, size_t length);
  /// What run() would do now, and why.
  Verdict explain(const Request& request);
  /// The same for a read of `length` bytes from the start of a file into well aligned memory of `device`. The facts may
  /// be of a file that is not open.
  Verdict explain(const storage::FileFacts& file, uint64_t length, int device);

  const gpu::Runtime* runtime() const { return runtime_.get(); }
  std::shared_ptr<const gpu::Runtime> shared_runtime() const { return runtime_; }
  const Config& config() const { return config_; }
  storage::MountTable& mounts() { return mounts_; }
  /// Lets go of files that are kept mapped for devices.
  void drop_windows() { windows_.drop_all(); }
  /// Bytes of files that are kept mapped for devices.
  uint64_t window_bytes() const { return windows_.bytes(); }
  /// Bytes pinned for staging now.
  size_t pinned_bytes() const { return pool_ ? pool_->pinned_bytes() : 0; }

 private:
  Verdict judge_now(const Situation& situation, const storage::FileFacts& file, int device);
  /// Null if nothing is known of the device: it is not AMD's, or there is none.
  const gpu::DeviceFacts* device_facts(int device) const;
  Policy policy() const;
  /// What is known of a file and memory without a request.
  Situation standing(const storage::FileFacts& file, const gpu::Memory& memory) const;
  Situation situation(const Request& request, const storage::FileFacts& file) const;
  /// A small read that goes the short way, and why not by the best route.
  struct Short {
    ShortWay way;
    Reason reason;
  };
  std::optional<Short> short_way_of(const Request& request) const;
  /// Nothing if the short way turns out not to be one; then nothing has happened.
  std::optional<Outcome> run_short(const Request& request, const Short& how, Patience patience);
  /// The small reads of `requests` together; nothing for all others, and for those that must be tried one by one.
  std::vector<std::optional<Outcome>> run_short(const std::vector<Request>& requests, Patience patience);
  /// Null where the CPU cannot store to the device's memory.
  const gpu::LargeBar* large_bar(int device) const;
  /// A read that the device carries out alone, from files that are kept mapped for it; nothing if that is not all of it.
  std::optional<Outcome> run_by_device(Request request);
  static uint64_t readable_length(const Request& request);
  struct Progress;
  /// Plans what is left and carries it out; true if another route may do what this one could not.
  bool attempt(Progress& progress, Lane& lane, const CancelToken& cancel);
  TransferContext context_of(const Request& request, Lane& lane, const CancelToken& cancel);
  SegmentResult carry_out(const TransferContext& context, const Segment& segment);
  /// Logs the verdict on a request, once for all that fare like it.
  void tell(const Request& request, const Outcome& outcome);
  /// For later requests.
  void learn(const Request& request, const Segment& segment, const SegmentResult& result);
  int fetch_from_device(const gpu::Memory& memory, uint64_t offset, char* out, size_t length);

  const std::shared_ptr<const gpu::Runtime> runtime_;
  const Config config_;
  storage::MountTable mounts_;
  const int devices_;                                     ///< of the runtime
  std::vector<std::optional<gpu::LargeBar>> large_bars_;  ///< by HIP ordinal
  mutable std::once_flag device_facts_once_;
  mutable std::vector<std::optional<gpu::DeviceFacts>> device_facts_;  ///< by HIP ordinal
  std::unique_ptr<gpu::PinnedPool> pool_;
  LanePool lanes_;
  SmallLanes small_lanes_;
  std::unique_ptr<kernels::PerDevice> kernels_;  ///< null where there are none
  SmallCopies small_copies_;
  FileWindows windows_;
  Team team_;                                         ///< for copies
  Team callers_;                                      ///< for calls that wait in the kernel
  const std::unique_ptr<std::once_flag[]> prepared_;  ///< by HIP ordinal
  Breakers breakers_;
  RouteLog route_log_;
};

}  // namespace engine
