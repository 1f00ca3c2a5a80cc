// Lanes that are not in use.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/lane.h"

namespace engine {

/// Thread-safe.
class LanePool {
 public:
  LanePool(std::shared_ptr<const gpu::Runtime> runtime, unsigned depth, bool io_uring)
      : runtime_(std::move(runtime)), depth_(depth), io_uring_(io_uring) {}

  std::unique_ptr<Lane> borrow() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto lane = std::move(idle_.back());
        idle_.pop_back();
        return lane;
      }
    }
    return std::make_unique<Lane>(runtime_, depth_, io_uring_);
  }
  void give_back(std::unique_ptr<Lane> lane) {
    std::lock_guard lock(mutex_);  // a lane too many is dropped after the lock
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(lane));
  }

 private:
  static constexpr size_t kMostIdle = 64;
  const std::shared_ptr<const gpu::Runtime> runtime_;
  const unsigned depth_;
  const bool io_uring_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;
};

}  // namespace engine
