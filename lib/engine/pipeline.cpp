#include "engine/pipeline.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "storage/page_cache.h"

namespace engine {
namespace {

constexpr uint64_t kDirectChunk = 1 << 20;    // of direct I/O into pages: what NVMe drives split at most
constexpr uint64_t kBufferedChunk = 4 << 20;  // of page cache copies: between two looks at cancellation
constexpr uint64_t kSmallestChunk = 256 << 10;
constexpr uint64_t kPiece = 1 << 20;  // the finest cut between what is cached and what is not
constexpr size_t kCopiesAhead =
    3;  // of one thread: enough to keep the link busy while it fills the next slot

// Small enough for every thread to get some, so that a request of a few MiB overlaps its copies, too.
uint64_t chunk_bytes(const TransferContext& c, const Segment& segment) {
  if (segment.route == Route::pages && segment.direct) return kDirectChunk;
  const uint64_t most = segment.route == Route::staged ? c.pool->slot_bytes() : kBufferedChunk;
  const uint64_t threads = c.team.size() + 1;
  uint64_t chunk = kSmallestChunk;
  while (chunk < most && chunk * 2 * threads < segment.length) chunk *= 2;
  return std::min(chunk, most);
}

// The memory or the file does not take direct I/O; the page cache still may.
bool refuses_direct(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == EFAULT || error == EREMOTEIO || error == ENODEV ||
         error == ENOTTY;
}

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080  // Linux 6.14
#endif

// Leaves nothing in the page cache that was not there, where the kernel can.
ssize_t read_once(int fd, char* to, size_t length, off_t at) {
  iovec v{to, length};
  ssize_t n = preadv2(fd, &v, 1, at, RWF_DONTCACHE);
  return n < 0 && (errno == EOPNOTSUPP || errno == EINVAL) ? pread(fd, to, length, at) : n;
}

}  // namespace

SegmentWork::SegmentWork(const TransferContext& c, const Segment& s)
    : context(c),
      segment(s),
      cursor(c.file_offset, {s.begin, s.begin + s.length}, chunk_bytes(c, s)),
      direct(s.direct && !(c.cache_use == CacheUse::keep && c.direction == Direction::read)) {}

Pipeline::Pipeline(SegmentWork& work, Lane& lane, Role role, std::function<bool()> leave)
    : work_(work),
      c_(work.context),
      lane_(lane),
      role_(role),
      leave_(std::move(leave)),
      staged_(work.segment.route == Route::staged),
      reading_(work.context.direction == Direction::read) {}

// Only an exception leaves something in flight: it must land before slots and memory go back.
Pipeline::~Pipeline() {
  for (; io_outstanding_ > 0; io_outstanding_--) lane_.queue().wait();
  if (!copying_.empty()) c_.runtime->hip().hipStreamSynchronize(stream_->handle());
  std::lock_guard lock(work_.mutex);
  work_.chunks.insert(work_.chunks.end(), results_.begin(), results_.end());
  for (size_t i = 0; i < kRoutes; i++) work_.by_route[i] += by_route_[i];
}

bool Pipeline::run() {
  if (staged_) {
    auto stream = lane_.stream(c_.device);
    if (!stream) {
      if (role_ == Role::helper) return false;
      work_.hip_error = stream.error();
      work_.setup_error = stream.error() == hip::kErrorOutOfMemory ? ENOMEM : EIO;
      return false;
    }
    stream_ = *stream;
  }
  for (;;) {
    while (issue_next()) {
    }
    if (io_outstanding_) {
      on_io(lane_.queue().wait());
    } else if (!copying_.empty()) {
      on_copied(copying_.front()->event->synchronize());
    } else {
      break;
    }
    drain_copies();
  }
  return left_for_others_;
}

void Pipeline::drain_copies() {
  while (!copying_.empty()) {
    hip::Error state = copying_.front()->event->query();
    if (state == hip::kErrorNotReady) break;
    on_copied(state);
  }
}

char* Pipeline::memory(const Chunk& chunk) const {
  return chunk.slot ? chunk.slot->data() : c_.address + chunk.begin;
}
uint64_t Pipeline::offset(const Piece& piece) const {
  return c_.file_offset + piece.chunk->begin + piece.begin + piece.moved;
}

bool Pipeline::issue_next() {
  if (leaving_ || work_.cursor.done() || in_flight_ == lane_.queue_depth() || copying_.size() == kCopiesAhead)
    return false;
  if (int reason = c_.cancel.reason()) {
    std::lock_guard lock(work_.mutex);
    work_.cancelled = reason;
    work_.cursor.stop();
    return false;
  }
  if (leave_ && leave_()) {
    leaving_ = left_for_others_ = true;
    return false;
  }
  std::optional<gpu::PinnedSlot> slot;
  if (staged_ && !take_slot(slot)) return false;
  Chunk& chunk = chunks_.emplace_back();  // before anything is started
  const Extent extent = work_.cursor.take();
  if (extent.length() == 0) {
    chunks_.pop_back();
    return false;
  }
  chunk.begin = extent.begin;
  chunk.length = extent.length();
  chunk.slot = std::move(slot);
  in_flight_++;
  if (staged_ && !reading_)
    start_copy(chunk, chunk.length);
  else
    start_io(chunk);
  return true;
}

// Whoever holds a slot only tries for more, so that requests never wait for each other in a circle; a helper has its
// request's owner to fall back on.
bool Pipeline::take_slot(std::optional<gpu::PinnedSlot>& slot) {
  const dev_t source = c_.file.facts().id.device;
  if (in_flight_ > 0 || role_ == Role::helper) {
    slot = c_.pool->try_acquire(source);
    if (!slot && in_flight_ == 0) leaving_ = true;
    return slot.has_value();
  }
  auto acquired = c_.pool->acquire(source, [this] { return c_.cancel.reason() != 0; });
  if (!acquired) {
    std::lock_guard lock(work_.mutex);
    work_.hip_error = acquired.error();
    work_.setup_error = work_.hip_error == hip::kSuccess ? c_.cancel.reason() : ENOMEM;
    work_.cursor.stop();
    return false;
  }
  slot.emplace(std::move(*acquired));
  return true;
}

// ------------------------------------------------------------------------------------------------- file I/O

// Pieces around the page cache are started first, so that the disk works while those in it are copied.
void Pipeline::start_io(Chunk& chunk) {
  cut(chunk);
  bool copies = false;
  for (Piece& piece : chunk.pieces) {
    piece.chunk = &chunk;
    copies |= !piece.direct;
  }
  chunk.pending = static_cast<unsigned>(chunk.pieces.size());
  if (copies && reading_ && role_ == Role::owner && work_.help)
    work_.help(work_.cursor.left() / work_.cursor.chunk_bytes());
  for (Piece& piece : chunk.pieces)
    if (piece.direct) submit(piece);
  if (!copies) return;
  lane_.start_queue();
  for (Piece& piece : chunk.pieces)
    if (!piece.direct) run_buffered(piece);
}

// What of the chunk goes around the page cache, and what through it.
void Pipeline::cut(Chunk& chunk) {
  const bool direct = work_.direct && c_.file.direct() >= 0;
  if (!direct || !reading_) return add_piece(chunk, chunk.length, direct);
  const uint64_t at = c_.file_offset + chunk.begin;
  const storage::Residency whole = storage::residency(c_.file, at, chunk.length);
  if (whole.all() || whole.none() || chunk.length <= kPiece)
    return add_piece(chunk, chunk.length, !whole.all());
  for (uint64_t done = 0; done < chunk.length;) {
    const uint64_t length = std::min(chunk.length - done, kPiece - (at + done) % kPiece);
    add_piece(chunk, length, !storage::residency(c_.file, at + done, length).all());
    done += length;
  }
}

void Pipeline::add_piece(Chunk& chunk, uint64_t length, bool direct) {
  if (!chunk.pieces.empty() && chunk.pieces.back().direct == direct) {
    chunk.pieces.back().length += length;
    return;
  }
  Piece piece;
  if (!chunk.pieces.empty()) piece.begin = chunk.pieces.back().begin + chunk.pieces.back().length;
  piece.length = length;
  piece.direct = direct;
  chunk.pieces.push_back(piece);
}

void Pipeline::submit(Piece& piece) {
  Chunk& chunk = *piece.chunk;
  IoOperation op{reading_,
                 c_.file.direct(),
                 memory(chunk) + piece.begin + piece.moved,
                 static_cast<uint32_t>(piece.length - piece.moved),
                 offset(piece),
                 reinterpret_cast<uint64_t>(&piece)};
  if (chunk.slot) op.buffer = {static_cast<int>(chunk.slot->index()), chunk.slot->data(), chunk.slot->size()};
  lane_.queue().submit(op);
  io_outstanding_++;
}

void Pipeline::on_io(const IoCompletion& done) {
  Piece& piece = *reinterpret_cast<Piece*>(done.tag);  // NOLINT(performance-no-int-to-ptr)
  io_outstanding_--;
  if (done.result == -EINTR || done.result == -EAGAIN) return submit(piece);
  if (done.result < 0) {
    if (!refuses_direct(-done.result)) {
      piece.error = -done.result;
      return piece_finished(piece);
    }
    work_.direct = false;
    {
      std::lock_guard lock(work_.mutex);
      work_.direct_refused = -done.result;
    }
    piece.direct = false;
    return run_buffered(piece);
  }
  count(piece, static_cast<uint64_t>(done.result));
  piece.moved += static_cast<uint64_t>(done.result);
  if (piece.moved == piece.length) return piece_finished(piece);
  if (done.result == 0) {
    if (reading_)
      piece.ended = true;
    else
      piece.error = EIO;
    return piece_finished(piece);
  }
  // Short: the rest need not be aligned any more, and the page cache knows exactly where the file ends.
  piece.direct = false;
  run_buffered(piece);
}

void Pipeline::run_buffered(Piece& piece) {
  const int fd = c_.file.buffered();
  if (fd < 0) {
    piece.error = EMFILE;
    return piece_finished(piece);
  }
  while (piece.moved < piece.length) {
    char* memory_at = memory(*piece.chunk) + piece.begin + piece.moved;
    const size_t left = piece.length - piece.moved;
    const auto at = static_cast<off_t>(offset(piece));
    ssize_t n = !reading_                        ? pwrite(fd, memory_at, left, at)
                : c_.cache_use == CacheUse::once ? read_once(fd, memory_at, left, at)
                                                 : pread(fd, memory_at, left, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      piece.error = errno;
      break;
    }
    if (n == 0) {
      if (reading_)
        piece.ended = true;
      else
        piece.error = EIO;
      break;
    }
    count(piece, static_cast<uint64_t>(n));
    piece.moved += static_cast<uint64_t>(n);
  }
  piece_finished(piece);
}

Route Pipeline::route_of(const Piece& piece) const {
  if (!piece.direct && (reading_ || !staged_)) return Route::cached;
  return staged_ ? Route::staged : Route::pages;
}

void Pipeline::count(const Piece& piece, uint64_t bytes) {
  by_route_[static_cast<size_t>(route_of(piece))] += bytes;
}

void Pipeline::piece_finished(Piece& piece) {
  Chunk& chunk = *piece.chunk;
  if (--chunk.pending == 0) io_finished(chunk);
}

void Pipeline::io_finished(Chunk& chunk) {
  for (const Piece& p : chunk.pieces) {
    chunk.moved += p.moved;
    chunk.error = p.error;
    chunk.last = route_of(p);
    chunk.ended = p.ended;
    if (p.moved < p.length) break;
  }
  if (staged_ && reading_ && chunk.moved > 0)
    start_copy(chunk, chunk.moved);
  else
    finish(chunk);
}

// ----------------------------------------------------------------------------------- copies to and from VRAM

void Pipeline::start_copy(Chunk& chunk, uint64_t bytes) {
  char* device = c_.address + chunk.begin;
  const auto& hip = c_.runtime->hip();
  hip::Error e = reading_ ? hip.hipMemcpyAsync(device, chunk.slot->data(), bytes, hip::kMemcpyHostToDevice,
                                               stream_->handle())
                          : hip.hipMemcpyAsync(chunk.slot->data(), device, bytes, hip::kMemcpyDeviceToHost,
                                               stream_->handle());
  if (e != hip::kSuccess) return copy_failed(chunk, e);
  auto event = lane_.event(c_.device);
  if (event) e = event->record(*stream_);
  if (!event || e != hip::kSuccess) {
    settle(chunk);  // without an event the slot may not be used again before the whole stream is done
    return copy_failed(chunk, event ? e : event.error());
  }
  chunk.event.emplace(std::move(*event));
  copying_.push_back(&chunk);
}

// Waits for the stream.
void Pipeline::settle(Chunk& chunk) {
  if (c_.runtime->hip().hipStreamSynchronize(stream_->handle()) == hip::kSuccess || !chunk.slot) return;
  chunk.slot->abandon();
  chunk.slot.reset();
}

void Pipeline::copy_failed(Chunk& chunk, hip::Error error) {
  {
    std::lock_guard lock(work_.mutex);
    work_.hip_error = error;
  }
  chunk.error = error == hip::kErrorOutOfMemory ? ENOMEM : EIO;
  chunk.last = Route::staged;
  if (reading_) chunk.moved = 0;
  finish(chunk);
}

// The front of copying_ is done: one stream, so copies finish in the order in which they were started.
void Pipeline::on_copied(hip::Error error) {
  Chunk& chunk = *copying_.front();
  copying_.pop_front();
  if (error != hip::kSuccess) {
    // The copy may still be running: nobody gets the slot before the stream is done, nor the event ever again.
    settle(chunk);
    chunk.event.reset();
    return copy_failed(chunk, error);
  }
  lane_.keep(c_.device, std::move(*chunk.event));
  chunk.event.reset();
  if (reading_)
    finish(chunk);
  else
    start_io(chunk);
}

void Pipeline::finish(Chunk& chunk) {
  chunk.slot.reset();
  in_flight_--;
  if (chunk.error || chunk.ended) work_.cursor.stop();
  results_.push_back({chunk.begin, chunk.moved, chunk.error, chunk.last, chunk.ended});
}

}  // namespace engine
