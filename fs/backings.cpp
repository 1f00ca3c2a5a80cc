#include "backings.h"

namespace fs {
namespace {

constexpr size_t kMostIdle = 8192;

// The kernel writes as nobody, who would lose a file its set-id bits also where the real writer, root or one of its
// group, keeps them.
bool has_set_id_bits(const posix::Fd& path, std::optional<mode_t> mode) {
  struct stat st;
  if (!mode && fstat(path.get(), &st) == 0) mode = st.st_mode;
  return mode && *mode & (S_ISUID | S_ISGID);
}

}  // namespace

Backings::Opened Backings::open(Node& node, const posix::Fd& path, bool writable,
                                std::optional<mode_t> mode) {
  std::lock_guard lock(node.mutex);
  Opened opened;
  // One decision for all handles of a node: the kernel refuses to mix passthrough with its own caching.
  if (node.open_handles++ == 0) {
    const bool served = has_set_id_bits(path, mode);
    if (served && node.backing_id) session_->close_backing(std::exchange(node.backing_id, 0));
    if (!served && node.backing_id == 0) node.backing_id = session_->open_backing(path.get());
    node.backing_used_again = true;
  }
  if (writable) opened.first_writer = node.writable_handles++ == 0;
  opened.backing_id = node.backing_id;
  return opened;
}

void Backings::close(const std::shared_ptr<Node>& node, bool writable) {
  int32_t unused = 0;
  bool idle = false;
  {
    std::lock_guard lock(node->mutex);
    if (writable) node->writable_handles--;
    if (--node->open_handles > 0 || node->backing_id == 0) return;
    if (!keep_)
      std::swap(unused, node->backing_id);
    else
      idle = !std::exchange(node->backing_idle, true);
  }
  if (unused) session_->close_backing(unused);
  if (idle) retire(node);
}

void Backings::forget(Node& node) {
  int32_t unused = 0;
  {
    std::lock_guard lock(node.mutex);
    std::swap(unused, node.backing_id);
  }
  if (unused) session_->close_backing(unused);
}

void Backings::retire(const std::shared_ptr<Node>& node) {
  std::lock_guard lock(mutex_);
  idle_.push_back(node);
  if (idle_.size() > kMostIdle) trim();
}

// The oldest goes, unless it was used again since it came here: then it gets another round.
void Backings::trim() {
  for (size_t i = 0; i <= kMostIdle; i++) {
    auto node = idle_.front().lock();
    idle_.pop_front();
    if (!node) return;
    int32_t unused = 0;
    {
      std::lock_guard lock(node->mutex);
      const bool another_round = node->open_handles == 0 && std::exchange(node->backing_used_again, false);
      if (another_round) {
        idle_.push_back(node);
        continue;
      }
      node->backing_idle = false;  // one that is open comes back when it is closed
      if (node->open_handles == 0) std::swap(unused, node->backing_id);
    }
    if (unused) session_->close_backing(unused);
    return;
  }
}

}  // namespace fs
