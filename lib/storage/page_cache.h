// What of a file is in the page cache.
#pragma once

#include <cstdint>
#include <optional>

#include "storage/file.h"

namespace storage {

struct Residency {
  uint64_t cached_pages;
  uint64_t pages;
  bool all() const { return cached_pages >= pages; }
  bool none() const { return cached_pages == 0; }
};

/// Residency of [offset, offset + length), by cachestat(2) (Linux 6.5). Nothing if the kernel has no such
/// call or does not allow it for this descriptor (neither open for writing nor of the caller's own file).
std::optional<Residency> residency(int fd, uint64_t offset, uint64_t length);

/// The same by reading a byte of the first and of the last page without waiting, for where cachestat is not to be had.
/// `buffered`: a descriptor without O_DIRECT. A probe that fails starts the kernel's read-ahead at that place.
Residency probe_residency(int buffered, uint64_t offset, uint64_t length);

/// By the first of these that is to be had; none where neither is.
Residency residency(const File& file, uint64_t offset, uint64_t length);

}  // namespace storage
