// The inodes that the kernel knows. A node id is a slot number and a generation, never a pointer, so that a
// stale or made-up id is noticed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "posix/fd.h"

namespace fs {

using NodeId = uint64_t;
inline constexpr NodeId kRootId = 1;

struct Node {
  posix::Fd path;  ///< O_PATH: stays valid when the file is renamed or unlinked
  dev_t device = 0;
  ino_t inode = 0;
  NodeId id = 0;

  /// Open state, guarded by `mutex`. A backing id and the decision for passthrough hold while any handle is
  /// open, because the kernel refuses to mix.
  std::mutex mutex;
  unsigned open_handles = 0;
  unsigned writable_handles = 0;
  int32_t backing_id = 0;  ///< 0: this node's handles are served by the daemon
};

/// Thread-safe.
class NodeTable {
 public:
  NodeTable(posix::Fd root, const struct stat& st);

  /// The node, or null for an id that is not (any more) in use.
  std::shared_ptr<Node> find(NodeId id) const;
  std::shared_ptr<Node> root() const { return root_; }
  /// The node for what `path` has open, with one more lookup counted; `path` is dropped if the node exists.
  std::shared_ptr<Node> look_up(posix::Fd path, const struct stat& st);
  /// The kernel has forgotten `count` lookups.
  void forget(NodeId id, uint64_t count);
  size_t size() const;

 private:
  struct Key {
    dev_t device;
    ino_t inode;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.inode * 0x9e3779b97f4a7c15ull ^ k.device; }
  };
  struct Slot {
    std::shared_ptr<Node> node;
    uint32_t generation = 0;
    uint64_t lookups = 0;
  };
  static uint32_t slot_of(NodeId id) { return static_cast<uint32_t>(id); }
  static uint32_t generation_of(NodeId id) { return static_cast<uint32_t>(id >> 32); }

  mutable std::shared_mutex mutex_;
  std::shared_ptr<Node> root_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::unordered_map<Key, uint32_t, KeyHash> by_key_;
};

}  // namespace fs
