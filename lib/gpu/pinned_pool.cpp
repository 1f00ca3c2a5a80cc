#include "gpu/pinned_pool.h"

#include <algorithm>
#include <chrono>

namespace gpu {

PinnedSlot::~PinnedSlot() {
  if (pool_) pool_->give_back(data_);
}
void PinnedSlot::abandon() {
  if (pool_) pool_->lose_one();
  pool_ = nullptr;
  data_ = nullptr;
}
size_t PinnedSlot::size() const { return pool_->slot_bytes(); }

PinnedPool::PinnedPool(std::shared_ptr<const Runtime> runtime, size_t slot_bytes, size_t cap_bytes)
    : runtime_(std::move(runtime)),
      slot_bytes_(slot_bytes),
      most_slots_(std::max<size_t>(cap_bytes / slot_bytes, 1)) {}

PinnedPool::~PinnedPool() {
  for (char* data : free_) runtime_->hip().hipHostFree(data);
}

tl::expected<char*, hip::Error> PinnedPool::take() {
  if (!free_.empty()) {
    char* data = free_.back();
    free_.pop_back();
    return data;
  }
  if (made_ == most_slots_) return tl::unexpected(hip::kSuccess);
  void* data = nullptr;
  hip::Error error = runtime_->hip().hipHostMalloc(&data, slot_bytes_, hip::kHostMallocPortable);
  if (error != hip::kSuccess) {
    runtime_->hip().hipGetLastError();
    if (made_ > 0) most_slots_ = made_;
    return tl::unexpected(error);
  }
  made_++;
  return static_cast<char*>(data);
}

tl::expected<PinnedSlot, hip::Error> PinnedPool::acquire(const std::function<bool()>& give_up) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  for (;;) {
    auto data = take();
    if (data) return PinnedSlot(this, *data);
    if (made_ == 0) return tl::unexpected(data.error());
    if (give_up && give_up()) return tl::unexpected(hip::kSuccess);
    waiting_++;
    returned_.wait_for(lock, kLook);
    waiting_--;
  }
}

std::optional<PinnedSlot> PinnedPool::try_acquire() {
  std::lock_guard lock(mutex_);
  if (waiting_ > 0 && free_.size() <= waiting_) return std::nullopt;
  auto data = take();
  if (!data) return std::nullopt;
  return PinnedSlot(this, *data);
}

void PinnedPool::give_back(char* data) {
  {
    std::lock_guard lock(mutex_);
    free_.push_back(data);
  }
  returned_.notify_one();
}

void PinnedPool::lose_one() {
  {
    std::lock_guard lock(mutex_);
    made_--;
  }
  returned_.notify_one();
}

size_t PinnedPool::pinned_bytes() const {
  std::lock_guard lock(mutex_);
  return made_ * slot_bytes_;
}

}  // namespace gpu
