#include "node_table.h"

namespace fs {

NodeTable::NodeTable(posix::Fd root, const struct stat& st) : root_(std::make_shared<Node>()) {
  root_->path = std::move(root);
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

std::shared_ptr<Node> NodeTable::look_up(posix::Fd path, const struct stat& st) {
  std::unique_lock lock(mutex_);
  auto [it, fresh] = by_key_.try_emplace({st.st_dev, st.st_ino}, 0);
  if (!fresh) {
    Slot& slot = slots_[it->second];
    slot.lookups++;
    return slot.node;
  }
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  it->second = index;
  Slot& slot = slots_[index];
  slot.lookups = 1;
  slot.node = std::make_shared<Node>();
  slot.node->path = std::move(path);
  slot.node->device = st.st_dev;
  slot.node->inode = st.st_ino;
  slot.node->id = static_cast<uint64_t>(slot.generation) << 32 | index;
  return slot.node;
}

void NodeTable::forget(NodeId id, uint64_t count) {
  std::shared_ptr<Node> dropped;  // its descriptor is closed outside the lock
  std::unique_lock lock(mutex_);
  uint32_t index = slot_of(id);
  if (id == kRootId || index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (!slot.node || slot.generation != generation_of(id)) return;
  slot.lookups -= std::min(count, slot.lookups);
  if (slot.lookups) return;
  by_key_.erase({slot.node->device, slot.node->inode});
  dropped = std::move(slot.node);
  slot.node = nullptr;
  slot.generation++;
  free_.push_back(index);
}

size_t NodeTable::size() const {
  std::shared_lock lock(mutex_);
  return by_key_.size();
}

}  // namespace fs
