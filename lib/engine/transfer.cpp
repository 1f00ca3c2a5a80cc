#include "engine/transfer.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "storage/page_cache.h"

namespace engine {
namespace {

constexpr uint64_t kDirectChunk = 1 << 20;    // of direct I/O into pages: what NVMe drives split at most
constexpr uint64_t kBufferedChunk = 4 << 20;  // of page cache copies: between two looks at cancellation

struct Chunk {
  uint64_t begin = 0;  // from the start of the request
  uint64_t length = 0;
  uint64_t moved = 0;  // by file I/O so far
  int error = 0;
  bool ended = false;   // end of file inside
  bool direct = false;  // goes around the page cache
  bool finished = false;
  std::optional<gpu::PinnedSlot> slot;
  std::optional<gpu::Event> event;
};

// The memory or the file does not take direct I/O; the page cache still may.
bool refuses_direct(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == EFAULT || error == EREMOTEIO || error == ENODEV ||
         error == ENOTTY;
}

class Transfer {
 public:
  Transfer(const TransferContext& context, const Segment& segment)
      : c_(context),
        segment_(segment),
        staged_(segment.route == Route::staged),
        reading_(context.direction == Direction::read),
        direct_(segment.direct),
        chunk_bytes_(staged_          ? context.pool->slot_bytes()
                     : segment.direct ? kDirectChunk
                                      : kBufferedChunk) {}

  SegmentResult run() {
    if (staged_) {
      auto stream = c_.lane.stream(c_.device);
      if (!stream) return failed(stream.error());
      stream_ = *stream;
    }
    for (;;) {
      while (issue_next()) {
      }
      if (io_outstanding_) {
        on_io(c_.lane.queue().wait());
      } else if (!copying_.empty()) {
        on_copied(copying_.front()->event->synchronize());
      } else {
        break;
      }
      while (!copying_.empty()) {
        hip::Error state = copying_.front()->event->query();
        if (state == hip::kErrorNotReady) break;
        on_copied(state);
      }
    }
    return result();
  }

  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  // Only an exception leaves something in flight: it must land before slots and memory go back.
  ~Transfer() {
    for (; io_outstanding_ > 0; io_outstanding_--) c_.lane.queue().wait();
    if (!copying_.empty()) c_.runtime->hip().hipStreamSynchronize(stream_->handle());
  }

 private:
  SegmentResult failed(hip::Error error) {
    SegmentResult r;
    r.error = error == hip::kErrorOutOfMemory ? ENOMEM : EIO;
    r.hip_error = error;
    return r;
  }

  char* memory(const Chunk& chunk) const {
    return chunk.slot ? chunk.slot->data() : c_.address + chunk.begin;
  }
  uint64_t offset(const Chunk& chunk) const { return c_.file_offset + chunk.begin + chunk.moved; }

  bool issue_next() {
    if (stopping_ || next_ == segment_.length || in_flight_ == c_.lane.queue().depth()) return false;
    if (c_.cancel.reason()) {
      cancelled_ = c_.cancel.reason();
      stopping_ = true;
      return false;
    }
    std::optional<gpu::PinnedSlot> slot;
    if (staged_ && !take_slot(slot)) return false;
    // Cut at multiples of the chunk size in the file, so that every chunk but the first and last is aligned.
    uint64_t at = c_.file_offset + segment_.begin + next_;
    uint64_t length = std::min(segment_.length - next_, chunk_bytes_ - at % chunk_bytes_);
    Chunk& chunk = chunks_.emplace_back();  // before anything is started
    chunk.begin = segment_.begin + next_;
    chunk.length = length;
    chunk.slot = std::move(slot);
    next_ += length;
    in_flight_++;
    if (staged_ && !reading_)
      start_copy(chunk, length);
    else
      start_io(chunk);
    return true;
  }

  bool take_slot(std::optional<gpu::PinnedSlot>& slot) {
    if (in_flight_ > 0) {
      slot = c_.pool->try_acquire();
      return slot.has_value();
    }
    auto acquired = c_.pool->acquire([this] { return c_.cancel.reason() != 0; });
    if (!acquired) {
      hip_error_ = acquired.error();
      setup_error_ = hip_error_ == hip::kSuccess ? c_.cancel.reason() : ENOMEM;
      stopping_ = true;
      return false;
    }
    slot.emplace(std::move(*acquired));
    return true;
  }

  // ------------------------------------------------------------------------------------------------- file
  // I/O

  void start_io(Chunk& chunk) {
    chunk.direct = direct_ && !in_page_cache(chunk) && c_.file.direct() >= 0;
    if (chunk.direct)
      submit(chunk);
    else
      run_buffered(chunk);
  }

  bool in_page_cache(const Chunk& chunk) const {
    if (!reading_) return false;
    auto residency = storage::residency(c_.file.own(), offset(chunk), chunk.length - chunk.moved);
    return residency && residency->all();
  }

  void submit(Chunk& chunk) {
    c_.lane.queue().submit({reading_, c_.file.direct(), memory(chunk) + chunk.moved,
                            static_cast<uint32_t>(chunk.length - chunk.moved), offset(chunk),
                            reinterpret_cast<uint64_t>(&chunk)});
    io_outstanding_++;
  }

  void on_io(const IoCompletion& done) {
    Chunk& chunk = *reinterpret_cast<Chunk*>(done.tag);  // NOLINT(performance-no-int-to-ptr)
    io_outstanding_--;
    if (done.result == -EINTR || done.result == -EAGAIN) return submit(chunk);
    if (done.result < 0) {
      if (!refuses_direct(-done.result)) {
        chunk.error = -done.result;
        return io_finished(chunk);
      }
      direct_ = false;
      // These two speak of the file; the others of the memory, or of the two together.
      direct_refused_ = done.result == -EINVAL || done.result == -EOPNOTSUPP;
      chunk.direct = false;
      return run_buffered(chunk);
    }
    count(chunk, static_cast<uint64_t>(done.result));
    if (chunk.moved == chunk.length) return io_finished(chunk);
    if (done.result == 0) {
      if (reading_)
        chunk.ended = true;
      else
        chunk.error = EIO;
      return io_finished(chunk);
    }
    // Short: the rest need not be aligned any more, and the page cache knows exactly where the file ends.
    chunk.direct = false;
    run_buffered(chunk);
  }

  void run_buffered(Chunk& chunk) {
    const int fd = c_.file.buffered();
    if (fd < 0) {
      chunk.error = EMFILE;
      return io_finished(chunk);
    }
    while (chunk.moved < chunk.length) {
      char* at = memory(chunk) + chunk.moved;
      size_t left = chunk.length - chunk.moved;
      ssize_t n = reading_ ? pread(fd, at, left, static_cast<off_t>(offset(chunk)))
                           : pwrite(fd, at, left, static_cast<off_t>(offset(chunk)));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        chunk.error = errno;
        break;
      }
      if (n == 0) {
        if (reading_)
          chunk.ended = true;
        else
          chunk.error = EIO;
        break;
      }
      count(chunk, static_cast<uint64_t>(n));
    }
    io_finished(chunk);
  }

  void count(Chunk& chunk, uint64_t bytes) {
    chunk.moved += bytes;
    Route route = staged_ ? Route::staged : Route::pages;
    if (!chunk.direct && (reading_ || !staged_)) route = Route::cached;
    by_route_[static_cast<size_t>(route)] += bytes;
  }

  void io_finished(Chunk& chunk) {
    if (staged_ && reading_ && chunk.moved > 0)
      start_copy(chunk, chunk.moved);
    else
      finish(chunk);
  }

  // ------------------------------------------------------------------------------------- copies to and from
  // VRAM

  void start_copy(Chunk& chunk, uint64_t bytes) {
    char* device = c_.address + chunk.begin;
    hip::Error e = reading_ ? c_.runtime->hip().hipMemcpyAsync(device, chunk.slot->data(), bytes,
                                                               hip::kMemcpyHostToDevice, stream_->handle())
                            : c_.runtime->hip().hipMemcpyAsync(chunk.slot->data(), device, bytes,
                                                               hip::kMemcpyDeviceToHost, stream_->handle());
    if (e != hip::kSuccess) return copy_failed(chunk, e);
    auto event = c_.lane.event(c_.device);
    if (event) e = event->record(*stream_);
    if (!event || e != hip::kSuccess) {
      settle(chunk);  // without an event the slot may not be used again before the whole stream is done
      return copy_failed(chunk, event ? e : event.error());
    }
    chunk.event.emplace(std::move(*event));
    copying_.push_back(&chunk);
  }

  // Waits for the stream.
  void settle(Chunk& chunk) {
    if (c_.runtime->hip().hipStreamSynchronize(stream_->handle()) == hip::kSuccess || !chunk.slot) return;
    chunk.slot->abandon();
    chunk.slot.reset();
  }

  void copy_failed(Chunk& chunk, hip::Error error) {
    hip_error_ = error;
    chunk.error = error == hip::kErrorOutOfMemory ? ENOMEM : EIO;
    if (reading_) chunk.moved = 0;
    finish(chunk);
  }

  // The front of copying_ is done: one stream, so copies finish in the order in which they were started.
  void on_copied(hip::Error error) {
    Chunk& chunk = *copying_.front();
    copying_.pop_front();
    if (error != hip::kSuccess) {
      // The copy may still be running: nobody gets the slot before the stream is done, nor the event ever
      // again.
      settle(chunk);
      chunk.event.reset();
      return copy_failed(chunk, error);
    }
    c_.lane.keep(c_.device, std::move(*chunk.event));
    chunk.event.reset();
    if (reading_)
      finish(chunk);
    else
      start_io(chunk);
  }

  void finish(Chunk& chunk) {
    chunk.finished = true;
    chunk.slot.reset();
    in_flight_--;
    if (chunk.error || chunk.ended) stopping_ = true;
  }

  SegmentResult result() const {
    SegmentResult r;
    r.hip_error = hip_error_;
    r.error = setup_error_;
    r.direct_refused = direct_refused_;
    r.by_route = by_route_;
    for (const Chunk& chunk : chunks_) {
      r.done += chunk.moved;
      r.error = chunk.error;
      r.ended = chunk.ended;
      if (chunk.error || chunk.ended) break;
    }
    if (r.done < segment_.length && !r.error && !r.ended) r.error = setup_error_ ? setup_error_ : cancelled_;
    // Memory that turned out not to be pages; staging does not need it to be.
    r.route_failed = r.error == EFAULT && !staged_;
    return r;
  }

  const TransferContext& c_;
  const Segment& segment_;
  const bool staged_, reading_;
  bool direct_;
  const uint64_t chunk_bytes_;
  const gpu::Stream* stream_ = nullptr;
  std::deque<Chunk> chunks_;  // in file order; references stay valid
  std::deque<Chunk*> copying_;
  uint64_t next_ = 0;  // bytes of the segment that are in chunks
  unsigned in_flight_ = 0, io_outstanding_ = 0;
  bool stopping_ = false, direct_refused_ = false;
  int cancelled_ = 0, setup_error_ = 0;
  hip::Error hip_error_ = hip::kSuccess;
  std::array<uint64_t, kRoutes> by_route_{};
};

}  // namespace

SegmentResult run_transfer(const TransferContext& context, const Segment& segment) {
  if (segment.route != Route::staged) return Transfer(context, segment).run();
  gpu::DeviceGuard guard(*context.runtime, context.device);
  if (guard.status() != hip::kSuccess) {
    SegmentResult r;
    r.error = ENODEV;
    r.hip_error = guard.status();
    return r;
  }
  return Transfer(context, segment).run();
}

}  // namespace engine
