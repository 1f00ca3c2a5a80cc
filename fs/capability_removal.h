// Capabilities that go before a write.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "node_table.h"

namespace fs {

/// Before a file with capabilities is written to, the kernel asks for them, has them removed, and then wants a change of
/// attributes that names none. Before chown(2) to nobody new it does the same, but where the caller has removed them
/// himself, only the first and the last of these. All on behalf of the caller's thread. Thread-safe.
class CapabilityRemoval {
 public:
  void asked(NodeId node, pid_t thread) {
    if (last_.load(std::memory_order_relaxed)) came_before(node, thread);
  }
  void happened(NodeId node, pid_t thread) { last_ = key(node, thread); }
  /// Whether the last one was of this node and for this thread, which has not asked since. Told once.
  bool came_before(NodeId node, pid_t thread) {
    uint64_t expected = key(node, thread);
    return last_.compare_exchange_strong(expected, 0);
  }

 private:
  static uint64_t key(NodeId node, pid_t thread) {
    return uint64_t{node} ^ (static_cast<uint64_t>(thread) << 40);
  }
  std::atomic<uint64_t> last_ = 0;  // others in between only make it forget
};

}  // namespace fs
