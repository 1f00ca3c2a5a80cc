// Moves the bytes of one segment on the routes pages, cached and staged: in chunks, several in flight, by several
// threads where the CPU copies.
#pragma once

#include <array>
#include <cstdint>

#include "engine/cancel.h"
#include "engine/config.h"
#include "engine/lane_pool.h"
#include "engine/plan.h"
#include "engine/team.h"
#include "gpu/pinned_pool.h"

namespace engine {

struct SegmentResult {
  uint64_t done = 0;  ///< bytes from the segment's begin without a gap
  int error = 0;      ///< errno of the first byte that failed
  hip::Error hip_error = hip::kSuccess;
  bool ended = false;         ///< end of file
  bool route_failed = false;  ///< the error speaks against the route, not the request: try the next one
  bool lasting = false;       ///< and would be the same the next time
  int direct_refused = 0;     ///< errno with which direct I/O was refused; the page cache was used instead
  Route last = Route::none;   ///< by which the byte that failed was tried; none: as planned
  std::array<uint64_t, kRoutes> by_route{};
};

/// Everything a segment needs to be moved.
struct TransferContext {
  Lane& lane;                   ///< of the calling thread
  LanePool& lanes;              ///< for threads that help
  Team& team;                   ///< for copies
  Team& callers;                ///< for calls that wait in the kernel
  const gpu::Runtime* runtime;  ///< null: no staging
  gpu::PinnedPool* pool;        ///< null: no staging
  const storage::File& file;
  char* address;  ///< of the request's first byte
  int device;
  bool memory_is_pages;
  Direction direction;
  uint64_t file_offset;  ///< of the request's first byte
  const CancelToken& cancel;
  CacheUse cache_use = CacheUse::automatic;
};

/// `segment.route` is pages, cached or staged. Returns when nothing is in flight any more.
SegmentResult run_transfer(const TransferContext& context, const Segment& segment);

/// `segment.route` is peer: synchronous calls in the kernel, cut so that a cancelled request ends soon.
SegmentResult run_peer(const TransferContext& context, const Segment& segment);

}  // namespace engine
