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

/// An optional feature: used where it is to be had, insisted on with a warning where it is not, or left alone.
enum class Switch { off, on, automatic };

/// How long the kernel may believe what it was told, in seconds.
struct CacheTimes {
  double names = 1;       ///< that a name stands for an inode
  double absence = 1;     ///< that a name stands for nothing
  double attributes = 1;  ///< of an inode that nobody writes through the mount
};

enum class CachePolicy {
  automatic,  ///< names until the source changes, where that can be watched; everything else for a second
  never,      ///< every look is a request
  always,     ///< for sources that only change through the mount
  seconds,    ///< everything, for that long
};

/// What reading a file does to its access time; without a word from the user, what the source's mount says.
enum class AccessTimes { as_source, never, relative, always };

struct Options {
  std::string source, mountpoint;
  bool foreground = false;
  bool debug_fuse = false;
  std::string log_level = "info";
  std::string log_file;
  std::string runtime = "auto";
  TagPolicy tag = TagPolicy::registered;
  bool passthrough = true;
  Switch uring = Switch::automatic;  ///< FUSE over io_uring
  CachePolicy cache = CachePolicy::automatic;
  double cache_seconds = 1.0;  ///< for CachePolicy::seconds
  AccessTimes access_times = AccessTimes::as_source;
  bool directory_access_times = true;
  bool follow_links = true;
  bool read_only = false;
  bool forward_locks = false;  ///< take locks on the source's files, too
  bool submounts = false;      ///< show what is mounted below SOURCE
  bool hide_source = false;    ///< cover SOURCE with something empty
  /// Of files that nobody has open; further ones are known by their handles.
  size_t held_descriptors = 16384;
  unsigned engine_threads = 0;  ///< requests moved at the same time; 0: by the number of CPUs
  std::string socket;           ///< path of the hand-over socket; empty: chosen, "none": no socket
  engine::Config engine;
  std::vector<std::string> fuse_options;  ///< handed on to libfuse and the kernel
};

/// Applies a comma-separated -o list. EINVAL names the option that is unknown or has a bad value. Options
/// that only mean something to mount(8), systemd or fstab are ignored.
posix::Result<void> apply_mount_options(Options& options, const std::string& list);

/// Whether the kernel knows the option for every file system, so that a mount that is there can be told it.
bool is_kernel_option(const std::string& name);

/// `watched`: changes of the source are noticed as they happen.
CacheTimes cache_times(const Options& options, bool watched);

/// EINVAL: what the options ask of SOURCE cannot be done with this MOUNTPOINT. Both are full paths.
posix::Result<void> check_directories(const Options& options);

/// One line per -o option, for --help.
std::string mount_options_help();

}  // namespace fs
