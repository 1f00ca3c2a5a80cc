// A range of a file whose page-cache pages a device reads by itself: mapped, and registered with the runtime. Repeated
// reads then cost no copy by the CPU.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/hip.h"
#include "posix/mapping.h"

namespace engine {

/// What changes whenever the contents of a file do. Two equal versions, with nobody able to write at the first, mean
/// that pages seen then are the file's pages still.
struct FileVersion {
  uint64_t size = 0;
  int64_t change_nanoseconds = 0, modification_nanoseconds = 0;
  uint64_t links = 0;
  bool operator==(const FileVersion&) const = default;
};

/// Of an open file; an errno if it cannot be told.
posix::Result<FileVersion> version_of(int fd);

/// Whether pages mapped now would stay the file's as long as its version stays: nobody may be in the middle of a write
/// around the page cache, which would replace them after the change of its times. `fd` is open for reading only, or
/// this is false.
bool is_quiet(int fd, const FileVersion& version);

class FileWindow {
 public:
  /// Maps [offset, offset + length) of the file `fd` and registers it with `runtime` for all devices; offset is a multiple of the page
  /// size. Fails with an errno: EAGAIN if the range is not in the page cache as a whole, EBUSY if the file may be being
  /// written, ENOTSUP where the runtime refuses.
  static posix::Result<std::shared_ptr<FileWindow>> open(const std::shared_ptr<const gpu::Runtime>& runtime,
                                                         int fd, uint64_t offset, uint64_t length);
  ~FileWindow();
  FileWindow(const FileWindow&) = delete;
  FileWindow& operator=(const FileWindow&) = delete;

  /// Where the byte at `offset` of the file is. For devices: a load by the CPU may fault when the file shrinks.
  const char* at(uint64_t offset) const { return mapping_.data() + (offset - offset_); }
  uint64_t length() const { return length_; }
  const FileVersion& version() const { return version_; }
  /// A copy out of it cannot be waited for: it stays registered for good.
  void abandon() { registered_ = false; }

 private:
  FileWindow() = default;
  std::shared_ptr<const gpu::Runtime> runtime_;
  posix::Mapping mapping_;
  bool registered_ = false;
  uint64_t offset_ = 0, length_ = 0;
  FileVersion version_;
};

}  // namespace engine
