// What a user may choose about the engine.
#pragma once

#include <cstddef>

#include "engine/route.h"

namespace engine {

struct Config {
  RouteSet routes = RouteSet::all();
  size_t slot_bytes = size_t{4} << 20;    ///< one pinned staging slot; a multiple of the page size
  size_t pool_bytes = size_t{256} << 20;  ///< cap of all pinned staging memory
  unsigned depth = 16;                    ///< file operations in flight for one request
  bool io_uring = true;                   ///< false: threads instead
  bool peer_on_any_file_system = false;   ///< try peer DMA whatever the file system
};

}  // namespace engine
