// What a user may choose about the engine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/route.h"

namespace engine {

/// What reading does to the page cache.
enum class CacheUse {
  automatic,  ///< what is cached comes from the cache, the rest goes around it
  once,       ///< as automatic, and parts that have to go through the cache are dropped from it (Linux 6.14)
  keep,       ///< everything goes through the cache, so that the next reader finds it there
};

/// "auto", "once" or "keep".
inline std::optional<CacheUse> parse_cache_use(std::string_view text) {
  if (text == "auto") return CacheUse::automatic;
  if (text == "once") return CacheUse::once;
  if (text == "keep") return CacheUse::keep;
  return std::nullopt;
}

/// By default: they fill a PCIe 5 x16 link, and more only cost CPU (measured on an H200).
inline constexpr unsigned kMostCopyThreads = 12;

struct Config {
  RouteSet routes = RouteSet::all();
  size_t slot_bytes = size_t{4} << 20;    ///< one pinned staging slot; a multiple of the page size
  size_t pool_bytes = size_t{256} << 20;  ///< cap of all pinned staging memory
  unsigned depth = 16;                    ///< file operations in flight for one request
  bool io_uring = true;                   ///< false: threads instead
  unsigned copy_threads = 0;  ///< that copy at the same time for one request; 0: by the number of CPUs
  CacheUse cache_use = CacheUse::automatic;
  /// Cap of file pages that stay mapped for devices; 0: none. Not set: an eighth of the memory with CUDA, where it was
  /// measured to be safe and faster, none on the software runtime. Never on AMD, whose driver stalls on registering a
  /// file's pages.
  std::optional<size_t> window_bytes;
  bool peer_on_any_file_system = false;  ///< try peer DMA whatever the file system and the disks
  std::string system_root;               ///< where /proc and /sys are looked for; "" outside tests
};

}  // namespace engine
