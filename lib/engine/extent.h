// A part of a request.
#pragma once

#include <cstdint>

namespace engine {

struct Extent {
  uint64_t begin = 0, end = 0;  ///< from the start of the request
  uint64_t length() const { return end - begin; }
};

}  // namespace engine
