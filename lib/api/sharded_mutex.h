// A shared mutex whose readers do not share a cache line.
#pragma once

#include <array>
#include <functional>
#include <shared_mutex>
#include <thread>

namespace api {

/// As std::shared_mutex; locking it exclusively takes every shard, so it is for what is read far more often than
/// written. A thread must unlock what it locked, itself.
class ShardedMutex {
 public:
  void lock() {
    for (auto& shard : shards_) shard.mutex.lock();
  }
  void unlock() {
    for (auto& shard : shards_) shard.mutex.unlock();
  }
  void lock_shared() { own().lock_shared(); }
  void unlock_shared() { own().unlock_shared(); }

 private:
  struct alignas(64) Shard {
    std::shared_mutex mutex;
  };
  std::shared_mutex& own() {
    // Thread ids are addresses of thread blocks, far apart.
    const size_t id = std::hash<std::thread::id>()(std::this_thread::get_id());
    return shards_[id % shards_.size()].mutex;
  }
  std::array<Shard, 16> shards_;
};

}  // namespace api
