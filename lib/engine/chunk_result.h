// What became of the chunks of a segment, which several threads moved in any order.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/transfer.h"

namespace engine {

struct ChunkResult {
  uint64_t begin = 0;
  uint64_t moved = 0;         ///< from begin without a gap
  int error = 0;              ///< errno of the first byte that failed
  Route last = Route::none;   ///< by which that byte was tried
  bool ended = false;         ///< end of file inside
  bool route_failed = false;  ///< the error speaks against the route
};

/// What they come to: all that was moved before the first gap.
inline SegmentResult before_gap(std::vector<ChunkResult>& chunks, uint64_t begin) {
  std::sort(chunks.begin(), chunks.end(),
            [](const ChunkResult& a, const ChunkResult& b) { return a.begin < b.begin; });
  SegmentResult r;
  for (const ChunkResult& chunk : chunks) {
    if (chunk.begin != begin + r.done) break;  // the thread of the one before it gave up
    r.done += chunk.moved;
    r.error = chunk.error;
    r.last = chunk.last;
    r.ended = chunk.ended;
    r.route_failed = chunk.route_failed;
    if (chunk.error || chunk.ended) break;
  }
  return r;
}

}  // namespace engine
