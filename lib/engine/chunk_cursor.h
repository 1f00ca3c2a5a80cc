// The chunks of a segment, handed out in order to several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/extent.h"

namespace engine {

/// Cuts at multiples of the chunk size in the file, so that every chunk but the first and last is aligned.
/// Thread-safe.
class ChunkCursor {
 public:
  ChunkCursor(uint64_t file_offset, Extent extent, uint64_t chunk_bytes)
      : file_offset_(file_offset), end_(extent.end), chunk_bytes_(chunk_bytes), next_(extent.begin) {}

  /// The next chunk; an empty one if there is none.
  Extent take() {
    uint64_t begin = next_.load(std::memory_order_relaxed);
    uint64_t end = 0;
    do {
      if (begin >= end_ || stopped_.load(std::memory_order_relaxed)) return {};
      end = begin + std::min(end_ - begin, chunk_bytes_ - (file_offset_ + begin) % chunk_bytes_);
    } while (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }
  /// No more chunks are handed out.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool done() const {
    return next_.load(std::memory_order_relaxed) >= end_ || stopped_.load(std::memory_order_relaxed);
  }
  /// Bytes not handed out yet.
  uint64_t left() const { return end_ - std::min(end_, next_.load(std::memory_order_relaxed)); }
  uint64_t chunk_bytes() const { return chunk_bytes_; }

 private:
  const uint64_t file_offset_, end_, chunk_bytes_;
  std::atomic<uint64_t> next_;
  std::atomic<bool> stopped_{false};
};

}  // namespace engine
