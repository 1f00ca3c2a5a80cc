#include "engine/breakers.h"

#include <spdlog/spdlog.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>

namespace engine {
namespace {

constexpr size_t kMost = 4096;

}  // namespace

const char* name(Way way) {
  switch (way) {
    case Way::peer:
      return "peer-to-peer DMA";
    case Way::pages:
      return "direct I/O with device memory";
    case Way::direct:
      break;
  }
  return "direct I/O";
}

Breakers::Key Breakers::key(Way way, const storage::FileId& file, const gpu::Memory& memory) {
  if (way == Way::direct) return {way, file, -1, nullptr};
  const bool of_device = memory.device >= 0 && gpu::copies_to(memory.kind);
  return {way, file, of_device ? memory.device : -1, of_device ? nullptr : memory.address};
}

Breakers::Key Breakers::file_system(Key key) {
  key.file = {.device = key.file.device};
  return key;
}

bool Breakers::is_open(const Key& of_file, Clock::time_point now) const {
  for (const Key& k : {of_file, file_system(of_file)})
    if (auto it = breakers_.find(k); it != breakers_.end() && now < it->second.until) return true;
  return false;
}

Breakers::Open Breakers::open(const storage::FileId& file, const gpu::Memory& memory,
                              std::optional<Clock::time_point> at) const {
  if (!any()) return {};
  const Clock::time_point now = at.value_or(Clock::now());
  std::shared_lock lock(mutex_);
  auto is = [&](Way way) { return is_open(key(way, file, memory), now); };
  return {is(Way::peer), is(Way::pages), is(Way::direct)};
}

bool Breakers::trip(Breaker& breaker, unsigned tolerated, Clock::time_point now) const {
  if (now < breaker.until) return false;  // by a request that was under way
  const bool again = breaker.pause.count() > 0;
  if (!again && ++breaker.failures < tolerated) return false;
  breaker.pause = again ? std::min(breaker.pause * 2, patience_.longest) : patience_.first;
  breaker.until = now + breaker.pause;
  return true;
}

// A file that does without direct I/O says nothing about others on its file system.
void Breakers::failed(Way way, const storage::FileId& file, const gpu::Memory& memory, int error,
                      bool lasting, Clock::time_point now) {
  const Key of_file = key(way, file, memory);
  std::lock_guard lock(mutex_);
  if (breakers_.size() >= kMost) breakers_.clear();
  any_.store(true, std::memory_order_release);
  Breaker& breaker = breakers_[of_file];
  if (!trip(breaker, lasting ? 1 : patience_.failures, now)) return;
  spdlog::warn("{} failed on inode {} of device {}:{}, GPU {}: {}; not tried on this file for {} s",
               name(way), file.inode, major(file.device), minor(file.device), memory.device, strerror(error),
               breaker.pause.count());
  if (way == Way::direct) return;
  Breaker& all = breakers_[file_system(of_file)];
  if (trip(all, patience_.files, now))
    spdlog::warn("{} fails on device {}:{}, GPU {}: not tried on any file there for {} s", name(way),
                 major(file.device), minor(file.device), memory.device, all.pause.count());
}

void Breakers::worked(Way way, const storage::FileId& file, const gpu::Memory& memory) {
  if (!any()) return;
  const Key of_file = key(way, file, memory);
  std::lock_guard lock(mutex_);
  breakers_.erase(of_file);
  breakers_.erase(file_system(of_file));
  if (breakers_.empty()) any_.store(false, std::memory_order_release);
}

}  // namespace engine
