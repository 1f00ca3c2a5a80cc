#include "buffers.h"

#include <sys/random.h>

#include <vector>

namespace fs {
namespace {

uint64_t random_id() {
  uint64_t id = 0;
  while (id == 0)
    if (getrandom(&id, sizeof id, 0) != sizeof id) id = 0;
  return id;
}

}  // namespace

posix::Result<uint64_t> BufferTable::add(std::unique_ptr<gpu::Imported> imported, DescriptionId owner,
                                         std::optional<ProcessKey> process, bool process_wide) {
  auto buffer = std::make_shared<Buffer>(std::move(imported));
  std::lock_guard lock(mutex_);
  if (owned_[owner] >= kMostPerDescription) return posix::failure(ENOSPC, "buffers on this descriptor");
  uint64_t id = random_id();
  while (entries_.contains(id)) id = random_id();
  entries_.emplace(id, Entry{std::move(buffer), owner, process, process_wide, {}});
  owned_[owner]++;
  count_ = entries_.size();
  return id;
}

posix::Result<void> BufferTable::attach(uint64_t id, DescriptionId description,
                                        const std::optional<ProcessKey>& process) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  if (it == entries_.end()) return posix::failure(ENOENT, "buffer to attach");
  if (!process || it->second.process != process)
    return posix::failure(EPERM, "attach another process's buffer");
  it->second.attached.insert(description);
  return {};
}

std::shared_ptr<Buffer> BufferTable::find(uint64_t id, DescriptionId description,
                                          const std::optional<ProcessKey>& opener) const {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  return it != entries_.end() && it->second.valid_on(description, opener) ? it->second.buffer : nullptr;
}

bool BufferTable::remove(uint64_t id, DescriptionId description, const std::optional<ProcessKey>& opener,
                         std::function<void()> released) {
  std::shared_ptr<Buffer> last;
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.valid_on(description, opener)) return false;
  last = std::move(it->second.buffer);
  last->released_ = std::move(released);
  if (--owned_[it->second.owner] == 0) owned_.erase(it->second.owner);
  entries_.erase(it);
  count_ = entries_.size();
  return true;
}

template <typename Condition>
void BufferTable::remove_if(Condition condition) {
  std::vector<std::shared_ptr<Buffer>> last;
  std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!condition(it->second)) {
      ++it;
      continue;
    }
    last.push_back(std::move(it->second.buffer));
    if (--owned_[it->second.owner] == 0) owned_.erase(it->second.owner);
    it = entries_.erase(it);
  }
  count_ = entries_.size();
}

void BufferTable::description_closed(DescriptionId description) {
  if (empty()) return;
  remove_if([description](Entry& e) {
    e.attached.erase(description);
    return e.owner == description;
  });
}

void BufferTable::process_ended(const ProcessKey& process) {
  remove_if([&process](const Entry& e) { return e.process == process; });
}

bool BufferTable::process_holds_buffer(const ProcessKey& process) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_)
    if (entry.process == process) return true;
  return false;
}

}  // namespace fs
