// Counters of one process, in memory that ais-stats can map.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/engine.h"
#include "posix/fd.h"
#include "posix/mapping.h"

namespace api {

inline constexpr char kStatsName[] = "hipfile-stats";  ///< of the memfd, by which ais-stats finds it
/// Names a descriptor with a page that ais-stats made before it ran the program: a short run is not missed then.
inline constexpr char kStatsDescriptor[] = "HIPFILE_STATS_FD";
inline constexpr uint64_t kStatsVersion = 2;
inline constexpr size_t kStatsGpus = 16;
inline constexpr size_t kSizeBuckets =
    32;                                 ///< bucket i: [4 KiB << (i - 1), 4 KiB << i), the first below 4 KiB
inline constexpr size_t kReasons = 64;  ///< room for those to come
static_assert(kReasons >= engine::kReasons);

using Counter = std::atomic<uint64_t>;

struct OpCounter {
  Counter ok{0}, err{0};
};

/// One direction of one route of one GPU. A request counts for the route that moved most of it, its bytes for the route that
/// moved each.
struct TransferCounters {
  Counter ops{0}, bytes{0}, microseconds{0}, errors{0}, unaligned{0};
  Counter sizes[kSizeBuckets]{};
};

struct GpuCounters {
  char uuid[16];
  TransferCounters transfers[engine::kRoutes][2];  ///< [route][0 read, 1 write]
  Counter registered_bytes{0}, registrations{0}, deregistrations{0}, registration_errors{0};
};

/// Laid out the same in every process of one version.
struct StatsPage {
  Counter version{0};  ///< kStatsVersion once a library counts here
  Counter level{1};
  OpCounter file_register, file_deregister, buffer_register, buffer_deregister;
  OpCounter batch_setup, batch_submit, batch_complete, batch_cancel, batch_destroy, batch_enqueued,
      batch_processed;
  Counter batch_read_bytes{0}, batch_write_bytes{0}, batch_submit_microseconds{0},
      batch_completion_microseconds{0};
  Counter async_submitted{0}, failovers{0};
  Counter reasons[kReasons]{};       ///< why the best route was not taken
  GpuCounters gpus[kStatsGpus + 1];  ///< by HIP ordinal; the last is memory of no GPU
};

size_t size_bucket(uint64_t bytes);

/// Zeroed memory for a StatsPage, which cannot change its size. Invalid if there is none to be had.
posix::Fd make_stats_memory();

/// Thread-safe; counting takes no lock.
class Stats {
 public:
  Stats();
  StatsPage& page() { return *page_; }
  /// False where the memory could not be had: the counters then are of no use.
  bool available() const { return static_cast<bool>(fd_); }
  bool enabled() const { return page_->level > 0; }
  void set_level(uint64_t level) { page_->level = level; }

  void count(engine::Direction direction, int device, uint64_t length, bool unaligned,
             const engine::Outcome& outcome, uint64_t microseconds);

 private:
  posix::Fd fd_;
  posix::Mapping mapping_;
  StatsPage* page_;
};

}  // namespace api
