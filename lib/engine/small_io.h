// One small read, with as little around the system call as possible.
#pragma once

#include <optional>

#include "engine/cancel.h"
#include "engine/patience.h"
#include "engine/small_copies.h"
#include "engine/small_lanes.h"
#include "gpu/large_bar.h"
#include "gpu/memory.h"
#include "storage/file.h"

namespace engine {

struct SmallResult {
  uint64_t bytes = 0;
  int error = 0;  ///< errno that ended the read early; 0 at end of file
  hip::Error hip_error = hip::kSuccess;
};

/// Reads [offset, offset + length) through the page cache straight into memory that is pages. Nothing if the memory
/// turns out not to be: then nothing has happened.
std::optional<SmallResult> read_small_into_pages(const storage::File& file, char* to, size_t length,
                                                 uint64_t offset, Patience patience);

/// Reads [offset, offset + length) through the page cache straight into VRAM: the kernel stores to it through the BAR,
/// and no HIP call is made. Nothing if the CPU cannot address the memory: then nothing has happened.
std::optional<SmallResult> read_small_by_store(const gpu::LargeBar& bar, const storage::File& file, char* to,
                                               size_t length, uint64_t offset, Patience patience);

/// Reads `length` (at most kSmall) bytes by way of a lane's pinned memory into memory of a device. Nothing if no lane is
/// to be had: then nothing has happened.
std::optional<SmallResult> read_small_into_device(const gpu::Runtime& runtime, SmallLanes& lanes,
                                                  SmallCopies& copies, const storage::File& file, int device,
                                                  char* to, size_t length, uint64_t offset,
                                                  Patience patience);

}  // namespace engine
