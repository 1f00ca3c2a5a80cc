// Test files, and what of them the page cache holds.
#pragma once

#include <string>

#include "posix/error.h"
#include "workload.h"

namespace bench {

/// What files hold before anything is written by a workload.
inline constexpr uint64_t kFileSeed = 0;

/// Writes a file of `size` bytes of the pattern to the disk. Fails if the file system left holes.
posix::Result<void> make_file(const std::string& path, uint64_t size);

/// Brings the first `span` bytes into a state, and gives the share of their pages that is then in the page
/// cache, 0 to 1. EBUSY: the pages of a file that was to be cold cannot be evicted (tmpfs; mapped or pinned pages).
posix::Result<double> prepare_state(const std::string& path, uint64_t span, FileState state);

}  // namespace bench
