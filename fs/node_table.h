// The inodes that the kernel knows. A node id is a slot number and a generation, never a pointer, so that a
// stale or made-up id is noticed.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "posix/fd.h"

namespace fs {

using NodeId = uint64_t;
inline constexpr NodeId kRootId = 1;

/// An O_PATH descriptor: stays valid when the file is renamed or unlinked.
using PathFd = std::shared_ptr<const posix::Fd>;
/// A descriptor that calls like fchmod(2) take.
using DataFd = std::shared_ptr<const posix::Fd>;

/// A file by number and generation (name_to_handle_at(2)), which costs no descriptor and keeps nothing in memory.
struct FileHandle {
  int32_t type = 0;
  uint8_t size = 0;  ///< 0: there is none
  std::array<char, 27> bytes{};
  bool operator==(const FileHandle&) const = default;

  /// The file's number, in the forms that ext4, xfs and others use; nothing if it is another.
  std::optional<ino_t> inode() const;
  /// Empty if the file system has none, or longer ones, and with errno if asking fails. `name`: in the directory
  /// `path_fd`, not followed if it is a link; "" is for `path_fd` itself. `mount_id`: set to the mount that it is in.
  static FileHandle of(int path_fd, const char* name = "", int* mount_id = nullptr);
  /// ESTALE: the file is gone. EPERM: CAP_DAC_READ_SEARCH is missing. `mount_fd`: any file of the file system, but not
  /// open with O_PATH.
  posix::Result<posix::Fd> open(int mount_fd) const;
};

/// What open descriptions have open of a node's file, for as long as they last.
struct InUse {
  unsigned descriptions = 0;
  PathFd path;
  DataFd data;  ///< null: none has one
};

struct Node {
  dev_t device = 0;
  ino_t inode = 0;
  NodeId id = 0;

  /// One more description is open, which lends what it has; `data` may be null.
  void begin_use(const PathFd& lent_path, const DataFd& lent_data);
  /// It is closed: nothing keeps what it had lent.
  void end_use(const DataFd& lent_data);
  /// What an open description has lent, or null.
  DataFd data();

  /// Guards what follows.
  std::mutex mutex;
  PathFd path;  ///< null: opened when needed, by the handle
  FileHandle handle;
  std::unique_ptr<InUse> in_use;  ///< null: nothing is open
  /// A backing id and the decision for passthrough hold while any handle is open, because the kernel refuses to mix.
  unsigned open_handles = 0;
  unsigned writable_handles = 0;
  int32_t backing_id = 0;  ///< 0: this node's handles are served by the daemon
  bool backing_idle = false, backing_used_again = false;
  timespec cached_mtime{},
      cached_ctime{};  ///< of the contents that the kernel may have cached, where the daemon serves them
  off_t cached_size = -1;
  int64_t listed_ms = 0;  ///< when the kernel was last given the directory's entries
};

/// Thread-safe.
class NodeTable {
 public:
  /// Nodes hold descriptors up to `most_held`, if handles can do in their place; directories, which are needed more
  /// often, up to twice as many.
  NodeTable(posix::Fd root, const struct stat& st, size_t most_held = SIZE_MAX);

  /// The node, or null for an id that is not (any more) in use.
  std::shared_ptr<Node> find(NodeId id) const;
  std::shared_ptr<Node> root() const { return root_; }
  /// The node of an inode that the kernel knows, or null.
  std::shared_ptr<Node> find_inode(dev_t device, ino_t inode) const;
  /// The node for what `path` has open, with one more lookup counted. It need not keep `path`.
  std::shared_ptr<Node> look_up(const PathFd& path, const struct stat& st);
  /// The same for a name in `directory`, without opening the file, and `st` is filled. Null: that is not possible for this
  /// one, or would have to cross into another mount. ENOENT: there is no such name.
  posix::Result<std::shared_ptr<Node>> look_up(int directory, const char* name, struct stat& st);
  /// The file of a node. ESTALE: it has gone, not through the mount.
  posix::Result<PathFd> open(Node& node) const;
  /// The node of the file with this handle, if the kernel knows it.
  std::shared_ptr<Node> find_handle(const FileHandle& handle) const;
  /// Whether files can be opened by their handles.
  bool opens_by_handle() const { return handles_work_; }
  /// Whether nodes live by their handles, so that removing their last name would lose them.
  bool uses_handles() const { return by_handle_ > 0; }
  /// Makes the node of this inode, if there is one, hold its descriptor: its name is about to go.
  void hold(posix::Fd path, const struct stat& st);
  /// The kernel has forgotten `count` lookups. Gives the node if that were all.
  std::shared_ptr<Node> forget(NodeId id, uint64_t count);
  size_t size() const { return held_ + by_handle_; }
  /// Whether most of what was known once is forgotten; compact() then makes room, which takes a moment.
  bool has_shrunk() const { return size() < peak_ / 4 && peak_ > kWorthwhile; }
  void compact();
  /// Descriptors that nodes hold.
  size_t held() const { return held_; }

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
  bool is_full(const struct stat& st) const;
  Slot* find_known(const struct stat& st, const FileHandle& handle);
  std::shared_ptr<Node> add(const struct stat& st, const PathFd& path, const FileHandle& handle);
  void keep(Node& node, const PathFd& path, FileHandle handle);

  static constexpr size_t kWorthwhile = 100'000;

  const size_t most_held_;
  posix::Fd mount_;  ///< for opening by handle
  int mount_id_ = 0;
  bool handles_work_ = false, handles_tell_inodes_ = false;
  mutable std::shared_mutex mutex_;
  std::shared_ptr<Node> root_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::unordered_map<Key, uint32_t, KeyHash> by_key_;
  std::atomic<size_t> held_{1}, by_handle_{0}, peak_{1};
};

}  // namespace fs
