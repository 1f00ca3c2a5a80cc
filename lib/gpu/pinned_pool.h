// Pinned host memory for staging: slots of one size, made when first needed, never more than a cap.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
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
      : pool_(std::exchange(other.pool_, nullptr)),
        memory_(std::exchange(other.memory_, {})),
        source_(other.source_) {}
  PinnedSlot& operator=(PinnedSlot&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    std::swap(source_, other.source_);
    return *this;
  }
  ~PinnedSlot();
  /// Never to be used again, as a copy that cannot be waited for may still read or write it. The pool makes another.
  void abandon();
  char* data() const { return memory_.data; }
  size_t size() const;
  /// The same for the same memory, as long as the pool lives.
  unsigned index() const { return memory_.index; }

 private:
  friend class PinnedPool;
  struct Memory {
    char* data = nullptr;
    unsigned index = 0;
  };
  PinnedSlot(PinnedPool* pool, Memory memory, dev_t source) : pool_(pool), memory_(memory), source_(source) {}
  PinnedPool* pool_;
  Memory memory_;
  dev_t source_;
};

/// Thread-safe. A caller that holds no slot may wait for one; a caller that holds some must only try, so that
/// requests never wait for each other in a circle. Slots are asked for in the name of a source of data (a file system):
/// no source has more than half of what the others leave, so that slow disks never hold what a fast one needs.
/// 0 is nobody's name and has no such bound.
class PinnedPool {
 public:
  /// `slot_bytes`: a multiple of the page size. `cap_bytes`: at least one slot is made whatever it says.
  PinnedPool(std::shared_ptr<const Runtime> runtime, size_t slot_bytes, size_t cap_bytes);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Waits until a slot is free, or `give_up` says so (looked at from time to time): then kSuccess is the
  /// error. Otherwise fails only if no slot exists and none can be allocated.
  tl::expected<PinnedSlot, hip::Error> acquire(dev_t source = 0, const std::function<bool()>& give_up = {});
  /// A slot if one is free or can be made now, and nobody waits for one.
  std::optional<PinnedSlot> try_acquire(dev_t source = 0);

  size_t slot_bytes() const { return slot_bytes_; }
  size_t most_slots() const;
  /// Bytes pinned now.
  size_t pinned_bytes() const;

 private:
  friend class PinnedSlot;
  // With mutex_ held: a free or new slot, or the reason why not (kSuccess: the cap is reached).
  tl::expected<PinnedSlot::Memory, hip::Error> take(dev_t source, std::unique_lock<std::mutex>& lock);
  void give_back(PinnedSlot::Memory memory, dev_t source);
  void lose_one(dev_t source);
  // With mutex_ held.
  void let_go(dev_t source);
  bool has_its_share(dev_t source) const;

  const std::shared_ptr<const Runtime> runtime_;
  const size_t slot_bytes_;
  size_t most_slots_;  ///< lowered to what could be had when an allocation fails
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<PinnedSlot::Memory> free_;
  std::map<dev_t, size_t> in_use_;  ///< slots by source
  unsigned next_index_ = 0;
  size_t made_ = 0;              ///< without those abandoned
  unsigned waiting_ = 0;         ///< for any slot
  unsigned others_waiting_ = 0;  ///< for one of their own source
};

}  // namespace gpu
