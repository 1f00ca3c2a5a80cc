// How a file's bytes lie on its volume.
#pragma once

#include <cstdint>
#include <string>

#include "posix/error.h"

namespace storage {

struct ExtentFacts {
  uint64_t extents = 0;  ///< counted; holes are none
  bool complete = true;  ///< false: there are more extents than were looked at
  uint64_t data_bytes = 0;
  uint64_t hole_bytes = 0;       ///< up to the end of the range or of the file
  uint64_t unwritten_bytes = 0;  ///< allocated, read as zeros
  uint64_t shared_bytes = 0;     ///< with other files (reflinks)
  uint64_t encoded_bytes = 0;    ///< compressed or encrypted: not the file's bytes as they are
  uint64_t delayed_bytes = 0;    ///< not on the volume yet
  bool inline_data = false;      ///< among metadata
  bool mapped = true;            ///< false: the file system only told data from holes

  /// What is not plain data, in one line; "" if all of it is.
  std::string describe() const;
};

/// What of [offset, offset + length) is what, by FIEMAP, or by SEEK_HOLE where there is none; at most 4096 extents are
/// looked at. Moves nothing, not even the file's position where FIEMAP works. Needs an open descriptor (no O_PATH).
posix::Result<ExtentFacts> examine_extents(int fd, uint64_t offset, uint64_t length);

}  // namespace storage
