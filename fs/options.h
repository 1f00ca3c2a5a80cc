// What the command line and -o say. Parsing is pure.
#pragma once

#include <string>
#include <vector>

#include "engine/config.h"
#include "posix/error.h"

namespace fs {

/// Which opens the daemon sees the data of, so that they can be tagged.
enum class TagPolicy {
  registered,  ///< opens by processes that hold a registered buffer
  direct,      ///< those, and opens with O_DIRECT
  all,
};

struct Options {
  std::string source, mountpoint;
  bool foreground = false;
  bool debug_fuse = false;
  std::string log_level = "info";
  std::string log_file;
  std::string runtime = "auto";
  TagPolicy tag = TagPolicy::direct;
  bool passthrough = true;
  double cache_seconds = 1.0;   ///< how long the kernel may believe names and attributes
  unsigned engine_threads = 0;  ///< requests moved at the same time; 0: by the number of CPUs
  std::string socket;           ///< path of the hand-over socket; empty: chosen, "none": no socket
  engine::Config engine;
  std::vector<std::string> fuse_options;  ///< handed on to libfuse and the kernel
};

/// Applies a comma-separated -o list. EINVAL names the option that is unknown or has a bad value. Options
/// that only mean something to mount(8), systemd or fstab are ignored.
posix::Result<void> apply_mount_options(Options& options, const std::string& list);

/// One line per -o option, for --help.
std::string mount_options_help();

}  // namespace fs
