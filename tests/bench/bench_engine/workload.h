// One measurement, as the driver script asks for it: a line of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "posix/error.h"

namespace bench {

enum class Direction { read, write };

/// Of the file's pages before the transfer.
enum class FileState {
  as_is,
  cached,  ///< all in the page cache
  half,    ///< every other MiB
  cold,    ///< none
  fresh,   ///< of length 0, for writes that extend it
};

struct Workload {
  std::string transport;
  std::string path;    ///< what is opened for the transfers; may lie on a mount
  std::string source;  ///< the same file outside any mount: its state is prepared, its bytes are compared
  Direction direction = Direction::read;
  FileState state = FileState::as_is;
  uint64_t span = 0;  ///< bytes of the file, and of device memory, that are used
  uint64_t size = 0;  ///< bytes of one request
  unsigned threads = 1;
  unsigned depth = 1;          ///< requests of a thread that are handed over together
  uint64_t chunk = 4 << 20;    ///< bytes of a baseline's own buffer
  bool random = false;         ///< requests in random order instead of rising offsets
  bool interleaved = false;    ///< threads take turns along the file instead of a part each
  uint64_t operations = 0;     ///< most requests of all threads together; 0: the span once
  double seconds = 0;          ///< no request starts after so long; 0: no limit
  unsigned warm_passes = 0;    ///< passes before the one that is measured
  uint64_t warm_requests = 0;  ///< requests of a thread in each of them; 0: all
  bool direct = false;         ///< open with O_DIRECT
  bool sync = false;           ///< fdatasync belongs to the time
  bool verify = false;         ///< compare every byte that was moved
};

/// EINVAL with what is wrong.
posix::Result<Workload> parse_workload(const std::string& line);

/// [offset, offset + length) of the file, and of device memory.
struct Request {
  uint64_t offset;
  uint64_t length;
};

/// The requests of each thread, in order. No offset occurs twice.
std::vector<std::vector<Request>> plan_requests(const Workload& workload);

}  // namespace bench
