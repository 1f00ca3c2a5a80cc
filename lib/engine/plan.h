// How one request is carried out: a pure decision over what is known, so that it can be tested with tables
// and shown to people.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/route.h"
#include "gpu/memory.h"
#include "storage/file.h"

namespace engine {

enum class Direction { read, write };  ///< read: file to memory

/// What is known when a request is planned.
struct Situation {
  Direction direction = Direction::read;
  uint64_t file_offset = 0;
  uint64_t length = 0;
  uint64_t address = 0;  ///< of the first byte in memory
  gpu::MemoryKind memory = gpu::MemoryKind::device;
  bool memory_is_pages = false;
  storage::FileKind file = storage::FileKind::regular;
  Reason file_objection = Reason::none;    ///< against peer-to-peer DMA: of refuse_file()
  Reason device_objection = Reason::none;  ///< the same of refuse_device()
  uint32_t offset_align = 0;               ///< 0: no direct I/O
  uint32_t memory_align = 0;
  bool runtime_has_ais = false;
  bool windows = false;  ///< the device can read the whole range from the page cache by itself
  bool stores = false;   ///< the CPU can store to the device's memory (large BAR)
  RouteSet allowed = RouteSet::all();
  // Of late:
  bool peer_failed_before = false;    ///< peer-to-peer DMA between this file and this device
  bool pages_failed_before = false;   ///< direct I/O between this file and this memory
  bool direct_failed_before = false;  ///< direct I/O on this file
  RouteSet failed_now;                ///< earlier in this request
};

struct Segment {
  uint64_t begin = 0;  ///< from the start of the request
  uint64_t length = 0;
  Route route = Route::none;
  bool direct = false;  ///< file I/O around the page cache (where the page cache does not have the data)
};

struct Plan {
  /// In order, without gaps. Empty if no route is left.
  std::vector<Segment> segments;
  /// Why each route does not carry the bulk; none for the one that does.
  std::array<Reason, kRoutes> refused{};
  /// Why not the best route that there is for such memory.
  Reason reason = Reason::none;
  /// The route of the longest segment.
  Route route() const;
  /// Whether some of it goes around the page cache.
  bool is_direct() const;
};

/// Requests with less than this in whole blocks go through the page cache: read-ahead beats a direct read
/// there.
inline constexpr uint64_t kDirectMinimum = 256 * 1024;

/// What counts as a small request, in bytes.
inline constexpr uint64_t kSmall = 64 * 1024;

Plan plan(const Situation& situation);

/// How a small read of a regular file goes in one step, without segments.
enum class ShortWay {
  store,   ///< a read(2) into device memory
  pages,   ///< a read(2) into memory that is pages
  pinned,  ///< a read(2) into pinned memory, and a copy
};
/// Nothing for requests that are not small, or that a better route takes.
std::optional<ShortWay> short_way(const Situation& situation);

/// Why a request does not go by the best route for such memory: direct I/O for pages, peer-to-peer DMA for other memory.
/// None if it does.
Reason best_refusal(const Situation& situation);

}  // namespace engine
