// The directory that is shown.
#pragma once

#include <sys/stat.h>

#include "options.h"
#include "posix/fd.h"

namespace fs {

struct Source {
  posix::Fd root;  ///< O_PATH
  struct stat status {};
  /// Seen through a mount of our own: without what is mounted below it, untouched by what is mounted over it later,
  /// and with the times and rights that the options ask for.
  bool own_mount = false;
};

/// Opens it. ENOENT, ENOTDIR, EACCES as open(2). Without the right to make mounts it is seen as it is.
posix::Result<Source> open_source(const Options& options);

/// Something empty over SOURCE for as long as the mount lives, so that nobody takes its files for others than those on
/// the mount: cp would empty them, mv delete them.
class SourceCover {
 public:
  /// EPERM: needs CAP_SYS_ADMIN.
  static posix::Result<SourceCover> put(const std::string& source);
  SourceCover() = default;
  SourceCover(SourceCover&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SourceCover& operator=(SourceCover&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  SourceCover(const SourceCover&) = delete;
  SourceCover& operator=(const SourceCover&) = delete;
  ~SourceCover();

 private:
  std::string path_;
};

}  // namespace fs
