#include "engine/route.h"

namespace engine {

const char* name(Route route) {
  switch (route) {
    case Route::none:
      return "none";
    case Route::peer:
      return "peer";
    case Route::pages:
      return "pages";
    case Route::cached:
      return "cached";
    case Route::staged:
      return "staged";
    case Route::store:
      return "store";
  }
  return "unknown";
}

const char* text(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "the best route";
    case Reason::disabled:
      return "switched off by an option";
    case Reason::no_runtime_ais:
      return "the HIP runtime has no hipAmdFileRead/hipAmdFileWrite";
    case Reason::host_pages:
      return "the buffer is host memory, which needs no peer-to-peer DMA";
    case Reason::not_pages:
      return "the CPU cannot address the buffer as pages";
    case Reason::no_direct_io:
      return "the file cannot be opened with O_DIRECT";
    case Reason::file_system:
      return "the file system cannot take part in peer-to-peer DMA";
    case Reason::journaled_data:
      return "ext4 is mounted with a data mode other than ordered";
    case Reason::offset_alignment:
      return "file offset or length is not a multiple of the disk's block";
    case Reason::memory_alignment:
      return "the buffer address is not aligned for direct I/O";
    case Reason::too_small:
      return "the request is too small for direct I/O";
    case Reason::failed:
      return "it was tried for this request and failed";
    case Reason::failed_before:
      return "it failed before on this file";
    case Reason::not_regular:
      return "neither a regular file nor a block device";
    case Reason::imported_memory:
      return "the way the buffer was registered excludes it";
    case Reason::not_cached:
      return "the range is not in the page cache";
  }
  return "unknown";
}

RouteSet RouteSet::all() {
  RouteSet set;
  for (uint32_t r = 1; r < kRoutes; r++) set.add(static_cast<Route>(r));
  return set;
}

std::optional<RouteSet> RouteSet::parse(const std::string& names) {
  if (names == "all") return all();
  RouteSet set;
  for (size_t start = 0; start <= names.size();) {
    size_t end = std::min(names.find(',', start), names.size());
    std::string item = names.substr(start, end - start);
    bool known = false;
    for (uint32_t r = 1; r < kRoutes; r++) {
      if (item != name(static_cast<Route>(r))) continue;
      set.add(static_cast<Route>(r));
      known = true;
    }
    if (!known) return std::nullopt;
    start = end + 1;
  }
  return set;
}

}  // namespace engine
