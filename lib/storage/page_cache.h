// What of a file is in the page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace storage {

struct Residency {
  uint64_t cached_pages;
  uint64_t pages;
  bool all() const { return cached_pages >= pages; }
};

/// Residency of [offset, offset + length), by cachestat(2) (Linux 6.5). Nothing if the kernel has no such
/// call or does not allow it for this descriptor.
std::optional<Residency> residency(int fd, uint64_t offset, uint64_t length);

}  // namespace storage
