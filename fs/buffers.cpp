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
  const uint64_t bytes = buffer->memory().length;
  std::lock_guard lock(mutex_);
  auto& here = on_description_[owner];
  if (here.size() >= kMostPerDescription) return posix::failure(ENOSPC, "buffers on this descriptor");
  if (entries_.size() >= kMost || bytes > kMostBytes - bytes_) {
    if (here.empty()) on_description_.erase(owner);
    return posix::failure(ENOMEM, "registered buffers");
  }
  uint64_t id = random_id();
  while (entries_.contains(id)) id = random_id();
  entries_.emplace(id, Entry{std::move(buffer), owner, process, process_wide, {}});
  here.insert(id);
  if (process) of_process_[*process]++;
  bytes_ += bytes;
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
  auto& here = on_description_[description];
  if (here.size() >= kMostPerDescription) return posix::failure(ENOSPC, "buffers on this descriptor");
  here.insert(id);
  if (description != it->second.owner) it->second.attached.insert(description);
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
  last = take(it);
  last->released_ = std::move(released);
  return true;
}

std::shared_ptr<Buffer> BufferTable::take(std::map<uint64_t, Entry>::iterator it) {
  const uint64_t id = it->first;
  Entry entry = std::move(it->second);
  entries_.erase(it);
  auto leave = [&](DescriptionId description) {
    auto here = on_description_.find(description);
    if (here == on_description_.end()) return;
    here->second.erase(id);
    if (here->second.empty()) on_description_.erase(here);
  };
  leave(entry.owner);
  for (DescriptionId description : entry.attached) leave(description);
  if (entry.process)
    if (auto of = of_process_.find(*entry.process); of != of_process_.end() && --of->second == 0)
      of_process_.erase(of);
  bytes_ -= entry.buffer->memory().length;
  count_ = entries_.size();
  return std::move(entry.buffer);
}

std::vector<std::shared_ptr<Buffer>> BufferTable::description_closed(DescriptionId description) {
  std::vector<std::shared_ptr<Buffer>> gone;
  if (empty()) return gone;
  std::lock_guard lock(mutex_);
  auto here = on_description_.find(description);
  if (here == on_description_.end()) return gone;
  for (auto ids = here->second; uint64_t id : ids) {
    auto it = entries_.find(id);
    if (it->second.owner == description) {
      gone.push_back(take(it));
    } else {
      it->second.attached.erase(description);
    }
  }
  on_description_.erase(description);
  return gone;
}

std::vector<std::shared_ptr<Buffer>> BufferTable::process_ended(const ProcessKey& process) {
  std::vector<std::shared_ptr<Buffer>> gone;
  std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto next = std::next(it);
    if (it->second.process == process) gone.push_back(take(it));
    it = next;
  }
  return gone;
}

bool BufferTable::process_holds_buffer(const ProcessKey& process) const {
  std::lock_guard lock(mutex_);
  return of_process_.contains(process);
}

}  // namespace fs
