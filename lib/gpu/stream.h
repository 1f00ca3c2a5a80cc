// Streams and events that destroy themselves. Both belong to the device that was current when they were made.
#pragma once

#include <utility>

#include "gpu/hip.h"

namespace gpu {

class Stream {
 public:
  /// A non-blocking stream of the current device: it never waits for the program's own null stream. CUDA has been seen to
  /// create the 34th stream of a process only once no stream waited for a value in memory any more.
  static tl::expected<Stream, hip::Error> create(std::shared_ptr<const Runtime> runtime);
  Stream(Stream&& other) noexcept
      : runtime_(std::move(other.runtime_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();
  hip::Stream handle() const { return handle_; }

 private:
  Stream(std::shared_ptr<const Runtime> runtime, hip::Stream handle)
      : runtime_(std::move(runtime)), handle_(handle) {}
  std::shared_ptr<const Runtime> runtime_;
  hip::Stream handle_;
};

class Event {
 public:
  /// How synchronize() waits: awake, which is the fastest, or asleep.
  enum class Wait { awake, asleep };
  static tl::expected<Event, hip::Error> create(std::shared_ptr<const Runtime> runtime,
                                                Wait wait = Wait::awake);
  Event(Event&& other) noexcept
      : runtime_(std::move(other.runtime_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();
  hip::Error record(const Stream& stream) const;
  /// kErrorNotReady while the work recorded is not done.
  hip::Error query() const;
  hip::Error synchronize() const;

 private:
  Event(std::shared_ptr<const Runtime> runtime, hip::Event handle)
      : runtime_(std::move(runtime)), handle_(handle) {}
  std::shared_ptr<const Runtime> runtime_;
  hip::Event handle_;
};

}  // namespace gpu
