#include "gpu/pinned_pool.h"

#include <algorithm>
#include <chrono>

namespace gpu {

PinnedSlot::~PinnedSlot() {
  if (pool_) pool_->give_back(memory_, source_);
}
void PinnedSlot::abandon() {
  if (pool_) pool_->lose_one(source_);
  pool_ = nullptr;
  memory_ = {};
}
size_t PinnedSlot::size() const { return pool_->slot_bytes(); }

PinnedPool::PinnedPool(std::shared_ptr<const Runtime> runtime, size_t slot_bytes, size_t cap_bytes)
    : runtime_(std::move(runtime)),
      slot_bytes_(slot_bytes),
      most_slots_(std::max<size_t>(cap_bytes / slot_bytes, 1)) {}

PinnedPool::~PinnedPool() {
  for (const auto& memory : free_) runtime_->hip().hipHostFree(memory.data);
}

// Half of what the others leave: n sources that want all they can get have an n + 1st each.
bool PinnedPool::has_its_share(dev_t source) const {
  auto used = in_use_.find(source);
  if (source == 0 || used == in_use_.end()) return false;
  size_t of_others = 0;
  for (const auto& [other, slots] : in_use_) of_others += other == source ? 0 : slots;
  return used->second >= (most_slots_ - std::min(of_others, most_slots_)) / 2;
}

// Allocates without the lock, which takes a while; the place is taken before.
tl::expected<PinnedSlot::Memory, hip::Error> PinnedPool::take(dev_t source,
                                                              std::unique_lock<std::mutex>& lock) {
  if (has_its_share(source)) return tl::unexpected(hip::kSuccess);
  if (!free_.empty()) {
    PinnedSlot::Memory memory = free_.back();
    free_.pop_back();
    in_use_[source]++;
    return memory;
  }
  if (made_ >= most_slots_) return tl::unexpected(hip::kSuccess);
  made_++;
  in_use_[source]++;
  const unsigned index = next_index_++;
  lock.unlock();
  void* data = nullptr;
  hip::Error error = runtime_->hip().hipHostMalloc(&data, slot_bytes_, hip::kHostMallocPortable);
  if (error != hip::kSuccess) runtime_->hip().hipGetLastError();
  lock.lock();
  if (error == hip::kSuccess) return PinnedSlot::Memory{static_cast<char*>(data), index};
  made_--;
  let_go(source);
  if (made_ > 0) most_slots_ = made_;
  return tl::unexpected(error);
}

tl::expected<PinnedSlot, hip::Error> PinnedPool::acquire(dev_t source, const std::function<bool()>& give_up) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  for (;;) {
    auto memory = take(source, lock);
    if (memory) return PinnedSlot(this, *memory, source);
    if (made_ == 0) return tl::unexpected(memory.error());
    if (give_up && give_up()) return tl::unexpected(hip::kSuccess);
    const bool for_any =
        !has_its_share(source);  // otherwise only its own slots help, and nobody makes way for it
    waiting_ += for_any;
    others_waiting_ += !for_any;
    returned_.wait_for(lock, kLook);
    waiting_ -= for_any;
    others_waiting_ -= !for_any;
  }
}

std::optional<PinnedSlot> PinnedPool::try_acquire(dev_t source) {
  std::unique_lock lock(mutex_);
  if (waiting_ > 0 && free_.size() <= waiting_) return std::nullopt;
  auto memory = take(source, lock);
  if (!memory) return std::nullopt;
  return PinnedSlot(this, *memory, source);
}

void PinnedPool::let_go(dev_t source) {
  auto it = in_use_.find(source);
  if (--it->second == 0) in_use_.erase(it);
}

// Everybody is woken: who waits first may wait for another source's sake.
void PinnedPool::give_back(PinnedSlot::Memory memory, dev_t source) {
  bool waited_for;
  {
    std::lock_guard lock(mutex_);
    free_.push_back(memory);
    let_go(source);
    waited_for = waiting_ + others_waiting_ > 0;
  }
  if (waited_for) returned_.notify_all();
}

void PinnedPool::lose_one(dev_t source) {
  {
    std::lock_guard lock(mutex_);
    made_--;
    let_go(source);
  }
  returned_.notify_all();
}

size_t PinnedPool::most_slots() const {
  std::lock_guard lock(mutex_);
  return most_slots_;
}

size_t PinnedPool::pinned_bytes() const {
  std::lock_guard lock(mutex_);
  return made_ * slot_bytes_;
}

}  // namespace gpu
