// Pinned host memory for staging: slots of one size, made when first needed, never more than a cap.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/hip.h"

namespace gpu {

class PinnedPool;

/// One slot, returned to its pool at the end.
class PinnedSlot {
 public:
  PinnedSlot(PinnedSlot&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
  PinnedSlot& operator=(PinnedSlot&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedSlot();
  /// Never to be used again, as a copy that cannot be waited for may still read or write it. The pool makes another.
  void abandon();
  char* data() const { return data_; }
  size_t size() const;

 private:
  friend class PinnedPool;
  PinnedSlot(PinnedPool* pool, char* data) : pool_(pool), data_(data) {}
  PinnedPool* pool_;
  char* data_;
};

/// Thread-safe. A caller that holds no slot may wait for one; a caller that holds some must only try, so that
/// requests never wait for each other in a circle.
class PinnedPool {
 public:
  /// `slot_bytes`: a multiple of the page size. `cap_bytes`: at least one slot is made whatever it says.
  PinnedPool(std::shared_ptr<const Runtime> runtime, size_t slot_bytes, size_t cap_bytes);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Waits until a slot is free, or `give_up` says so (looked at from time to time): then kSuccess is the
  /// error. Otherwise fails only if no slot exists and none can be allocated.
  tl::expected<PinnedSlot, hip::Error> acquire(const std::function<bool()>& give_up = {});
  /// A slot if one is free or can be made now, and nobody waits for one.
  std::optional<PinnedSlot> try_acquire();

  size_t slot_bytes() const { return slot_bytes_; }
  /// Bytes pinned now.
  size_t pinned_bytes() const;

 private:
  friend class PinnedSlot;
  // With mutex_ held: a free or new slot, or the reason why not (kSuccess: the cap is reached).
  tl::expected<char*, hip::Error> take();
  void give_back(char* data);
  void lose_one();

  const std::shared_ptr<const Runtime> runtime_;
  const size_t slot_bytes_;
  size_t most_slots_;  ///< lowered to what could be had when an allocation fails
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<char*> free_;
  size_t made_ = 0;  ///< without those abandoned
  unsigned waiting_ = 0;
};

}  // namespace gpu
