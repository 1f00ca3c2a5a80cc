// Backing ids: which files the kernel reads and writes itself.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "node_table.h"
#include "session.h"

namespace fs {

/// Gives every node at most one id, and keeps the ids of files that were open lately, so that the next open needs no
/// registration. Thread-safe.
class Backings {
 public:
  struct Opened {
    int32_t backing_id = 0;     ///< 0: the daemon serves the data
    bool first_writer = false;  ///< no other handle of the node can write
  };

  /// Before the first call of the others.
  void use(Session& session) { session_ = &session; }
  /// Keeping an id keeps its file in memory, too: only where removals elsewhere are noticed.
  void keep_idle(bool keep) { keep_ = keep; }

  /// One more handle of the node is open. `mode`: the file's, where it was read just now.
  Opened open(Node& node, const posix::Fd& path, bool writable, std::optional<mode_t> mode = {});
  void close(const std::shared_ptr<Node>& node, bool writable);
  /// The kernel has forgotten the node.
  void forget(Node& node);

 private:
  void retire(const std::shared_ptr<Node>& node);
  void trim();

  Session* session_ = nullptr;
  std::atomic<bool> keep_{false};
  std::mutex mutex_;
  std::deque<std::weak_ptr<Node>> idle_;  ///< those that were idle at some time, the oldest first
};

}  // namespace fs
