#include "node_table.h"

#include <fcntl.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>

namespace fs {
namespace {

// file_handle ends in an array of unknown length.
struct RawHandle {
  file_handle head;
  char bytes[sizeof(FileHandle::bytes)];
};

// While a node holds its file the number cannot become another's.
bool is_same(Node& node, const FileHandle& handle) {
  std::lock_guard lock(node.mutex);
  return node.path || node.handle == handle;
}

}  // namespace

FileHandle FileHandle::of(int path_fd, const char* name, int* mount_id) {
  RawHandle raw{};
  raw.head.handle_bytes = sizeof raw.bytes;
  int own_mount_id;
  FileHandle handle;
  if (name_to_handle_at(path_fd, name, &raw.head, mount_id ? mount_id : &own_mount_id, AT_EMPTY_PATH) < 0)
    return handle;
  handle.type = raw.head.handle_type;
  handle.size = static_cast<uint8_t>(raw.head.handle_bytes);
  std::copy_n(raw.head.f_handle, handle.size, handle.bytes.begin());
  return handle;
}

std::optional<ino_t> FileHandle::inode() const {
  constexpr int kNumber32Generation32 = 1, kXfsNumber64 = 0x81;
  if (type == kNumber32Generation32 && size == 2 * sizeof(uint32_t)) {
    uint32_t number;
    memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  if (type == kXfsNumber64 && size >= sizeof(uint64_t)) {
    uint64_t number;
    memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  return std::nullopt;
}

posix::Result<posix::Fd> FileHandle::open(int mount_fd) const {
  RawHandle raw{};
  raw.head.handle_type = type;
  raw.head.handle_bytes = size;
  std::copy_n(bytes.begin(), size, raw.head.f_handle);
  posix::Fd fd(open_by_handle_at(mount_fd, &raw.head, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return posix::last_failure("open file by its handle");
  return fd;
}

void Node::begin_use(const PathFd& lent_path, const DataFd& lent_data) {
  std::lock_guard lock(mutex);
  if (!in_use) in_use = std::make_unique<InUse>(InUse{0, lent_path, nullptr});
  if (!in_use->data) in_use->data = lent_data;
  in_use->descriptions++;
}

void Node::end_use(const DataFd& lent_data) {
  std::unique_ptr<InUse> last;  // closed outside the lock
  std::lock_guard lock(mutex);
  if (in_use->data == lent_data) in_use->data = nullptr;  // the lender's own reference is left
  if (--in_use->descriptions == 0) last = std::move(in_use);
}

DataFd Node::data() {
  std::lock_guard lock(mutex);
  return in_use ? in_use->data : nullptr;
}

NodeTable::NodeTable(posix::Fd root, const struct stat& st, size_t most_held)
    : most_held_(most_held),
      mount_(openat(root.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      root_(std::make_shared<Node>()) {
  root_->handle = FileHandle::of(root.get(), "", &mount_id_);
  handles_work_ = root_->handle.size > 0 && root_->handle.open(mount_.get());
  handles_tell_inodes_ = handles_work_ && root_->handle.inode() == st.st_ino;
  root_->path = std::make_shared<const posix::Fd>(std::move(root));
  root_->device = st.st_dev;
  root_->inode = st.st_ino;
  root_->id = kRootId;
  slots_.resize(2);  // slot 0 is nobody's, so that no id is 0
  slots_[1].node = root_;
  by_key_[{st.st_dev, st.st_ino}] = 1;
}

std::shared_ptr<Node> NodeTable::find(NodeId id) const {
  std::shared_lock lock(mutex_);
  uint32_t slot = slot_of(id);
  if (slot >= slots_.size() || slots_[slot].generation != generation_of(id)) return nullptr;
  return slots_[slot].node;
}

std::shared_ptr<Node> NodeTable::find_inode(dev_t device, ino_t inode) const {
  std::shared_lock lock(mutex_);
  auto it = by_key_.find({device, inode});
  return it == by_key_.end() ? nullptr : slots_[it->second].node;
}

std::shared_ptr<Node> NodeTable::find_handle(const FileHandle& handle) const {
  if (handle.size == 0) return nullptr;
  // Most of those asked for are of files that nobody has looked at through the mount.
  if (const auto inode = handle.inode(); inode && !find_inode(root_->device, *inode)) return nullptr;
  auto fd = handle.open(mount_.get());
  struct stat st;
  return fd && fstat(fd->get(), &st) == 0 ? find_inode(st.st_dev, st.st_ino) : nullptr;
}

// Whether the next node of this kind is to live by its handle.
bool NodeTable::is_full(const struct stat& st) const {
  const size_t most = S_ISDIR(st.st_mode) && most_held_ <= SIZE_MAX / 2 ? 2 * most_held_ : most_held_;
  return handles_work_ && held_ >= most && st.st_dev == root_->device && st.st_nlink > 0;
}

void NodeTable::keep(Node& node, const PathFd& path, FileHandle handle) {
  if (handle.size > 0) {
    node.handle = handle;
    by_handle_++;
  } else {
    node.path = path;
    held_++;
  }
}

// What is known of this number, unless it has been given to a new file; the old one's node stays until it is forgotten.
NodeTable::Slot* NodeTable::find_known(const struct stat& st, const FileHandle& handle) {
  auto it = by_key_.find({st.st_dev, st.st_ino});
  if (it == by_key_.end() || !is_same(*slots_[it->second].node, handle)) return nullptr;
  return &slots_[it->second];
}

std::shared_ptr<Node> NodeTable::add(const struct stat& st, const PathFd& path, const FileHandle& handle) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  by_key_[{st.st_dev, st.st_ino}] = index;
  Slot& slot = slots_[index];
  slot.lookups = 1;
  slot.node = std::make_shared<Node>();
  slot.node->device = st.st_dev;
  slot.node->inode = st.st_ino;
  slot.node->id = static_cast<uint64_t>(slot.generation) << 32 | index;
  keep(*slot.node, path, is_full(st) ? handle : FileHandle{});
  if (size() > peak_) peak_ = size();
  return slot.node;
}

std::shared_ptr<Node> NodeTable::look_up(const PathFd& path, const struct stat& st) {
  // Asked outside the lock, where it may be needed.
  FileHandle handle;
  if (is_full(st) || uses_handles()) handle = FileHandle::of(path->get());
  std::unique_lock lock(mutex_);
  if (handle.size == 0 && uses_handles()) handle = FileHandle::of(path->get());  // only since a moment
  Slot* known = find_known(st, handle);
  if (!known) return add(st, path, handle);
  known->lookups++;
  return known->node;
}

posix::Result<std::shared_ptr<Node>> NodeTable::look_up(int directory, const char* name, struct stat& st) {
  if (!handles_tell_inodes_ || held_ < most_held_) return nullptr;
  int mount_id;
  const FileHandle handle = FileHandle::of(directory, name, &mount_id);
  if (handle.size == 0 && errno == ENOENT) return posix::failure(ENOENT, name);
  if (handle.size == 0 || mount_id != mount_id_ || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return nullptr;
  // The name may have become another file's between the two. One that has got the number of the first as well is found
  // to be gone when it is used, and looked up again.
  if (st.st_dev != root_->device || handle.inode() != st.st_ino) return nullptr;
  std::unique_lock lock(mutex_);
  if (Slot* known = find_known(st, handle)) {
    known->lookups++;
    return known->node;
  }
  if (!is_full(st)) return nullptr;
  return add(st, nullptr, handle);
}

posix::Result<PathFd> NodeTable::open(Node& node) const {
  FileHandle handle;
  {
    std::lock_guard lock(node.mutex);
    if (node.path) return node.path;
    if (node.in_use) return node.in_use->path;
    handle = node.handle;
  }
  auto fd = handle.open(mount_.get());
  if (!fd) return tl::unexpected(fd.error());
  return std::make_shared<const posix::Fd>(std::move(*fd));
}

void NodeTable::hold(posix::Fd path, const struct stat& st) {
  const FileHandle handle = FileHandle::of(path.get());
  std::unique_lock table_lock(mutex_);  // it may not be forgotten meanwhile
  auto it = by_key_.find({st.st_dev, st.st_ino});
  if (it == by_key_.end()) return;
  auto node = slots_[it->second].node;
  if (!is_same(*node, handle)) return;
  std::lock_guard lock(node->mutex);
  if (node->path) return;
  node->path = std::make_shared<const posix::Fd>(std::move(path));
  held_++;
  by_handle_--;
}

std::shared_ptr<Node> NodeTable::forget(NodeId id, uint64_t count) {
  std::shared_ptr<Node> dropped;
  std::unique_lock lock(mutex_);
  uint32_t index = slot_of(id);
  if (id == kRootId || index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  if (!slot.node || slot.generation != generation_of(id)) return nullptr;
  slot.lookups -= std::min(count, slot.lookups);
  if (slot.lookups) return nullptr;
  auto it = by_key_.find({slot.node->device, slot.node->inode});
  if (it != by_key_.end() && it->second == index) by_key_.erase(it);
  dropped = std::move(slot.node);
  slot.node = nullptr;
  slot.generation++;
  free_.push_back(index);
  std::lock_guard node_lock(dropped->mutex);
  (dropped->path ? held_ : by_handle_)--;
  return dropped;  // its descriptor is closed outside the lock
}

// The slots stay: their generations tell old ids from new ones.
void NodeTable::compact() {
  {
    std::unique_lock lock(mutex_);
    if (!has_shrunk()) return;
    peak_ = size();
    by_key_.rehash(0);
  }
  malloc_trim(0);
}

}  // namespace fs
