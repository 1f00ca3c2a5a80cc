// Many small reads at once: the files are read with many operations in flight, and what was read goes to the device in
// one piece where the places follow each other, and in one launch where they do not.
#pragma once

#include <span>

#include "engine/patience.h"
#include "engine/small_lanes.h"
#include "engine/transfer.h"
#include "kernels/launch.h"

namespace engine {

/// What run_small_reads takes: reads of at most this many bytes.
inline constexpr uint64_t kSmallRead = kSmall;

struct SmallRead {
  const storage::File* file;
  char* address;  ///< where the bytes go
  uint64_t file_offset;
  uint32_t length;  ///< at most kSmallRead
  // Filled in:
  int64_t result = 0;  ///< bytes, or -errno
  hip::Error hip_error = hip::kSuccess;
};

/// Where the reads of one group go in a slot: with the same remainder modulo 16 as in their place on the device, and
/// without a gap behind the read before where their places have none. Offsets of as many reads as fit with their
/// segments; pure.
struct SlotLayout {
  std::vector<size_t> at;  ///< of each read
  size_t segments_at = 0;  ///< room for at.size() segments
};
SlotLayout lay_out(std::span<const SmallRead> reads, size_t slot_bytes);

/// What run_small_reads moves data with.
struct SmallReadContext {
  Lane& lane;
  const gpu::Runtime* runtime;
  gpu::PinnedPool* pool;
  kernels::PerDevice* kernels;  ///< null: one copy for each place
  Team& team;                   ///< helps with what is in the page cache
};

/// Reads into memory that is pages, all of one device, or by way of one pinned slot into device memory. Reads whose
/// result is negative or short may be tried again one by one; without patience that is what would wait for a disk or for
/// pinned memory (-EAGAIN).
void run_small_reads(const SmallReadContext& context, bool memory_is_pages, int device,
                     std::span<SmallRead> reads, Patience patience);

}  // namespace engine
