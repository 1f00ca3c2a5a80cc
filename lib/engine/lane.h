// What one running request needs for itself: a queue of file operations, and a stream and events per device.
// Lanes are kept and used again, because making them is slow.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "engine/io_queue.h"
#include "gpu/stream.h"

namespace engine {

class Lane {
 public:
  Lane(std::shared_ptr<const gpu::Runtime> runtime, unsigned depth, bool io_uring)
      : runtime_(std::move(runtime)), depth_(depth), io_uring_(io_uring) {}

  const std::shared_ptr<const gpu::Runtime>& runtime() const { return runtime_; }

  /// Made when first asked for: copies from the page cache need none.
  IoQueue& queue() {
    if (!queue_ && io_uring_) queue_ = make_uring_queue(std::max(depth_, kRingEntries));
    if (!queue_) queue_ = make_thread_queue(depth_);
    return *queue_;
  }
  unsigned queue_depth() const { return depth_; }
  /// Starts what was submitted, if anything was.
  void start_queue() {
    if (queue_) queue_->start();
  }

  /// The lane's stream on `device`, which must be the current one.
  tl::expected<const gpu::Stream*, hip::Error> stream(int device) {
    auto it = streams_.find(device);
    if (it == streams_.end()) {
      auto made = gpu::Stream::create(runtime_);
      if (!made) return tl::unexpected(made.error());
      it = streams_.emplace(device, std::move(*made)).first;
    }
    return &it->second;
  }

  /// An event of `device`, which must be the current one. Give it back with keep().
  tl::expected<gpu::Event, hip::Error> event(int device) {
    auto& spare = events_[device];
    if (spare.empty()) return gpu::Event::create(runtime_);
    gpu::Event e = std::move(spare.back());
    spare.pop_back();
    return e;
  }
  void keep(int device, gpu::Event event) { events_[device].push_back(std::move(event)); }

 private:
  std::shared_ptr<const gpu::Runtime> runtime_;
  static constexpr unsigned kRingEntries = 64;  ///< of small reads that share a submission
  const unsigned depth_;
  const bool io_uring_;
  std::unique_ptr<IoQueue> queue_;
  std::map<int, gpu::Stream> streams_;
  std::map<int, std::vector<gpu::Event>> events_;
};

}  // namespace engine
