// Space for large writes behind the end of a file.
#pragma once

#include <cstdint>

#include "storage/file.h"

namespace engine {

/// Moves the end of a file ahead of a direct write, whose parts would otherwise take turns in moving it (ext4, xfs), and
/// has its blocks allocated in one go. Does nothing for writes that are small or inside the file, nor where the file
/// system cannot or the process has a limit on file sizes.
class Preallocation {
 public:
  Preallocation(const storage::File& file, uint64_t offset, uint64_t length);
  /// Lets the file end behind the last byte, if not all were written and nobody else has moved the end meanwhile.
  ~Preallocation();
  Preallocation(const Preallocation&) = delete;
  Preallocation& operator=(const Preallocation&) = delete;
  void wrote(uint64_t bytes) { written_ += bytes; }

 private:
  const int fd_;
  const uint64_t offset_, end_;
  uint64_t old_size_ = 0, written_ = 0;
  bool done_ = false;
};

}  // namespace engine
