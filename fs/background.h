// Going to the background only once the mount is there, so that whoever started us can rely on it.
#pragma once

#include "posix/fd.h"

namespace fs {

/// Opens /dev/null for those of standard input, output and error that are closed, so that no other file gets their
/// numbers. To be called first of all.
void open_standard_descriptors();

class Background {
 public:
  /// Forks. In the parent it does not return: the process ends with the child's verdict. To be called before
  /// any thread exists. The child stays in the process group, by which autofs knows those that may pass the mount
  /// point while others wait for what comes there.
  static posix::Result<Background> start();
  /// Tells the parent that all is well. From here on this is a session of its own, and standard input, output and
  /// error go nowhere.
  void ready();

 private:
  explicit Background(posix::Fd report) : report_(std::move(report)) {}
  posix::Fd report_;  ///< closed without a byte: we failed, and said why on standard error
};

}  // namespace fs
