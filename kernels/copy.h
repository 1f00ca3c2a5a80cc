// Copies many segments in one launch: what one thread does.
#pragma once

#include "kernels/granule.h"

namespace kernels {

/// A piece to copy. Both ends may have any alignment; they must not overlap, nor may destinations of one launch.
/// Addresses are the device's. Pieces go fastest where both have the same remainder modulo 16: then every load
/// and store is 16 bytes wide and each byte is loaded once; elsewhere most bytes are loaded twice, the second time
/// from a cache.
struct Segment {
  const void* source;
  void* destination;
  uint64 length;  ///< bytes; 0 is nothing to do
};

/// Granules that a thread has on their way at once.
inline constexpr uint32 kCopyUnroll = 4;
/// Bytes of a segment that one block copies at a time.
inline constexpr uint32 kCopyTile = kThreads * kCopyUnroll * kGranule;

/// A thread's place in the grid: blocks (0, y), (1, y) ... take tiles of the segments y, y + height, ...
struct CopyPlace {
  uint32 thread, x, y, width, height;
};

/// Granules [first, end) of `destination`, each `kThreads` apart, from `source`, which lies `offset` bytes after a
/// granule's beginning.
template <bool kAligned>
KERNELS_DEVICE inline void copy_granules(GranuleOut destination, GranuleIn source, uint32 offset,
                                         uint64 first, uint64 end) {
  auto load = [&](uint64 i) {
    if constexpr (kAligned) return Granule{source[i].low, source[i].high};
    const Granule one{source[i].low, source[i].high}, two{source[i + 1].low, source[i + 1].high};
    return joined(one, two, offset);
  };
  auto store = [&](uint64 i, const Granule& granule) {
    destination[i].low = granule.low;
    destination[i].high = granule.high;
  };
  if (first + (kCopyUnroll - 1) * kThreads < end) {
    Granule granules[kCopyUnroll];
    KERNELS_UNROLL
    for (uint32 j = 0; j < kCopyUnroll; j++) granules[j] = load(first + j * kThreads);
    KERNELS_UNROLL
    for (uint32 j = 0; j < kCopyUnroll; j++) store(first + j * kThreads, granules[j]);
    return;
  }
  for (; first < end; first += kThreads) store(first, load(first));
}

KERNELS_DEVICE inline void copy_segment(const Segment& segment, const CopyPlace& place) {
  const uint64 source = (uint64)segment.source, destination = (uint64)segment.destination;
  // Bytes up to the destination's first whole granule, and from the last one on.
  const uint64 to_granule = granule_up(destination) - destination;
  const uint64 head = to_granule < segment.length ? to_granule : segment.length;
  const uint64 granules = (segment.length - head) / kGranule;
  const uint64 tail = head + granules * kGranule;
  if (place.x == 0) {
    const ByteIn from = (ByteIn)source;
    const ByteOut to = (ByteOut)destination;
    if (place.thread < head) to[place.thread] = from[place.thread];
    if (tail + place.thread < segment.length) to[tail + place.thread] = from[tail + place.thread];
  }
  const GranuleOut to = (GranuleOut)(destination + head);
  const GranuleIn from = (GranuleIn)granule_down(source + head);
  const uint32 offset = (source + head) % kGranule;
  constexpr uint32 kTile = kThreads * kCopyUnroll;
  for (uint64 tile = uint64{place.x} * kTile; tile < granules; tile += uint64{place.width} * kTile) {
    const uint64 end = tile + kTile < granules ? tile + kTile : granules;
    if (offset == 0)
      copy_granules<true>(to, from, 0, tile + place.thread, end);
    else
      copy_granules<false>(to, from, offset, tile + place.thread, end);
  }
}

/// All that one thread does of `count` segments.
KERNELS_DEVICE inline void copy_segments(const Segment* segments, uint32 count, const CopyPlace& place) {
  for (uint32 i = place.y; i < count; i += place.height) copy_segment(segments[i], place);
}

}  // namespace kernels
