// Many small reads at once: one submission for the files, one wait for the copies.
#pragma once

#include <span>

#include "engine/small_lanes.h"
#include "engine/transfer.h"

namespace engine {

/// What run_small_reads takes: reads of at most this many bytes.
inline constexpr uint64_t kSmallRead = kSmall;

struct SmallRead {
  const storage::File* file;
  char* address;  ///< where the bytes go
  uint64_t file_offset;
  uint32_t length;  ///< at most kSmallRead, and not beyond the end of the file as far as is known
  // Filled in:
  int64_t result = 0;  ///< bytes, or -errno
  hip::Error hip_error = hip::kSuccess;
};

/// Reads into memory that is pages, all of one device, or by way of one pinned slot into device memory. Reads whose
/// result is negative or short may be tried again one by one.
void run_small_reads(Lane& lane, const gpu::Runtime* runtime, gpu::PinnedPool* pool, bool memory_is_pages,
                     int device, std::span<SmallRead> reads);

}  // namespace engine
