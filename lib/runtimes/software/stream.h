// Streams and events of the software runtime: each stream is a thread with a queue, so that asynchronous
// calls really are, and order within and between streams is HIP's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hip_abi/hip_abi.h"

namespace software {

/// A queue of work done in order by a thread of its own. Thread-safe.
class StreamQueue {
 public:
  StreamQueue(int device, unsigned flags);
  ~StreamQueue();
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  /// Adds work; returns its number, counted from 1.
  uint64_t push(std::function<void()> work);
  /// Waits until work number `n` is done.
  void wait(uint64_t n);
  uint64_t last() const;
  /// Whether work number `n` is done.
  bool done(uint64_t n) const;
  bool idle() const;
  int device() const { return device_; }
  unsigned flags() const { return flags_; }
  bool blocking() const { return !(flags_ & hip::kStreamNonBlocking); }
  /// For work that waits: true once the stream is destroyed. abandon() then drops what is queued behind.
  std::function<bool()> closing() const;
  std::function<void()> abandon() const;

 private:
  // Owned by the thread too: the queue may be dropped anywhere, even by work that runs on this very thread,
  // and what is queued is still done.
  struct State {
    std::mutex mutex;
    std::condition_variable work_ready, work_done;
    std::deque<std::function<void()>> queue;
    uint64_t pushed = 0, done = 0;
    bool closing = false;
  };
  static void run(const std::shared_ptr<State>& state);

  const int device_;
  const unsigned flags_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct EventState {
  std::shared_ptr<StreamQueue> stream;  // of the last record; null: never recorded, counts as complete
  uint64_t number = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

/// Every stream of the process, the null streams included. Thread-safe.
class Streams {
 public:
  explicit Streams(int devices);

  hip::Error create(int device, unsigned flags, hip::Stream* out);
  hip::Error destroy(hip::Stream stream);
  /// The queue behind a handle; a null handle is the null stream of `device`. Null if there is no such
  /// stream.
  std::shared_ptr<StreamQueue> find(hip::Stream stream, int device);
  /// Adds work with the null stream's ordering: it waits for all blocking streams, and they wait for it.
  uint64_t push(const std::shared_ptr<StreamQueue>& queue, std::function<void()> work);
  /// Waits for the null stream and the blocking streams of a device.
  void drain_blocking(int device);
  /// Waits for everything on a device.
  void drain(int device);

  hip::Error create_event(hip::Event* out);
  hip::Error destroy_event(hip::Event event);
  hip::Error record(hip::Event event, const std::shared_ptr<StreamQueue>& queue);
  std::shared_ptr<EventState> event(hip::Event event);

 private:
  std::shared_ptr<StreamQueue> make(int device, unsigned flags);
  std::vector<std::shared_ptr<StreamQueue>> on_device(int device, bool blocking_only);

  std::mutex mutex_;
  std::vector<std::shared_ptr<StreamQueue>> null_streams_;
  std::map<hip::Stream, std::shared_ptr<StreamQueue>> streams_;
  std::vector<std::weak_ptr<StreamQueue>> all_;  // also those of threads, and destroyed ones that events keep
  std::map<hip::Event, std::shared_ptr<EventState>> events_;
  uintptr_t next_handle_ = 0x1000;  // never a pointer and never used again
};

}  // namespace software
