// Which process a request comes from, and when a process ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "posix/fd.h"

namespace fs {

/// A process, told from a later one with the same number by its start time.
struct ProcessKey {
  pid_t pid = 0;
  uint64_t start_time = 0;
  auto operator<=>(const ProcessKey&) const = default;
};

/// The process of a thread as FUSE names it. Nothing if it has ended or is not visible from here.
std::optional<ProcessKey> process_of_thread(pid_t tid);

/// A descriptor of another process, fetched by number.
/// EBADF: it has no such descriptor. EPERM: not allowed to look. ESRCH: the process is gone.
posix::Result<posix::Fd> fetch_descriptor(const ProcessKey& process, int fd);

/// Calls back, on a thread of its own, when a watched process ends. Thread-safe.
class ProcessWatcher {
 public:
  explicit ProcessWatcher(std::function<void(const ProcessKey&)> ended);
  ~ProcessWatcher();
  ProcessWatcher(const ProcessWatcher&) = delete;
  ProcessWatcher& operator=(const ProcessWatcher&) = delete;
  /// Watching the same process again changes nothing.
  posix::Result<void> watch(const ProcessKey& process);

 private:
  void run();
  std::function<void(const ProcessKey&)> ended_;
  std::mutex mutex_;
  std::map<ProcessKey, posix::Fd> watched_;
  posix::Fd epoll_, stop_;
  std::thread thread_;
};

}  // namespace fs
