// File locks that count underneath, too (locks=forward): taken on the source and through the mount they see each other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/cancel.h"
#include "node_table.h"

namespace fs {

/// POSIX record locks belong to a process and go when it closes any descriptor of the file; the kernel names the process
/// by an owner. Each owner of a file gets an open file description of its own, whose locks are his. Thread-safe.
class RecordLocks {
 public:
  /// F_OFD_GETLK or F_OFD_SETLK for the owner. 0 or an errno; EAGAIN: somebody else has a lock.
  int apply(const Node& node, const posix::Fd& path, uint64_t owner, int command, struct flock& lock);
  /// The owner has closed a descriptor of the file.
  void release(const Node& node, uint64_t owner);

 private:
  using Key = std::pair<NodeId, uint64_t>;
  using Description = std::shared_ptr<const posix::Fd>;
  Description find(const Key& key);
  posix::Result<Description> find_or_open(const Key& key, const posix::Fd& path);

  std::mutex mutex_;
  std::map<Key, Description> descriptions_;
};

/// Requests that wait for a lock: one thread tries them again and again, so that none that serves others ever waits.
class LockWaits {
 public:
  using Attempt = std::function<int()>;     ///< 0 or an errno; EAGAIN: not yet
  using Answer = std::function<void(int)>;  ///< called once, with 0 or an errno

  LockWaits() = default;
  ~LockWaits();
  LockWaits(const LockWaits&) = delete;
  LockWaits& operator=(const LockWaits&) = delete;
  /// Ends with EINTR once `token` is cancelled.
  void wait(Attempt attempt, Answer answer, std::shared_ptr<engine::CancelToken> token);

 private:
  struct Waiter {
    Attempt attempt;
    Answer answer;
    std::shared_ptr<engine::CancelToken> token;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiter> waiters_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fs
