// Learns of changes that others make to the source without going through the mount.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <thread>

#include "node_table.h"

namespace fs {

/// A change, as fanotify(7) reports it.
struct SourceEvent {
  FileHandle directory;   ///< where a name was made, removed or moved; empty if there is none
  std::string_view name;  ///< in that directory
  FileHandle file;        ///< whose attributes changed
  bool names = false;     ///< the name now stands for something else
  bool lost = false;      ///< the kernel had no room for more events
};

/// The events in what was read from fanotify, without those that process `own` caused.
void for_each_event(std::span<const char> bytes, pid_t own,
                    const std::function<void(const SourceEvent&)>& each);

class SourceWatch {
 public:
  using Changed = std::function<void(const SourceEvent&)>;

  /// Watches the whole file system of `root`. `changed` is called on a thread of its own. EPERM: needs CAP_SYS_ADMIN.
  static posix::Result<std::unique_ptr<SourceWatch>> start(int root, Changed changed);
  ~SourceWatch();
  SourceWatch(const SourceWatch&) = delete;
  SourceWatch& operator=(const SourceWatch&) = delete;

 private:
  SourceWatch(posix::Fd events, posix::Fd stop, Changed changed);
  void run();
  bool drain(std::span<char> buffer);

  const pid_t own_ = getpid();
  posix::Fd events_, stop_;
  Changed changed_;
  std::thread thread_;
};

}  // namespace fs
