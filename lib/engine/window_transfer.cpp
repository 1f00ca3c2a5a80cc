#include "engine/window_transfer.h"

#include <algorithm>
#include <atomic>

#include "engine/chunk_cursor.h"

namespace engine {
namespace {

/// What the threads that work at one segment share.
struct WindowWork {
  WindowWork(const TransferContext& c, const Segment& s, FileWindows& w)
      : context(c), windows(w), cursor(c.file_offset, {s.begin, s.begin + s.length}, FileWindows::kWindow) {}
  const TransferContext& context;
  FileWindows& windows;
  ChunkCursor cursor;
  std::atomic<int> error{0};
  std::atomic<hip::Error> hip_error{hip::kSuccess};

  void fail(int code, hip::Error hip = hip::kSuccess) {
    error = code;
    hip_error = hip;
    cursor.stop();
  }
};

using InUse = std::vector<std::shared_ptr<FileWindow>>;

// Starts the copies of one thread; those that could be started count.
void start_copies(WindowWork& work, hip::Stream stream, InUse& in_use) {
  const TransferContext& c = work.context;
  for (Extent e = work.cursor.take(); e.length() > 0; e = work.cursor.take()) {
    if (int reason = c.cancel.reason()) return work.fail(reason);
    const uint64_t at = c.file_offset + e.begin;
    auto window = work.windows.get(c.file, at);
    if (!window) return work.fail(window.error().code);
    in_use.push_back(*window);
    hip::Error error = c.runtime->hip().hipMemcpyAsync(c.address + e.begin, (*window)->at(at), e.length(),
                                                       hip::kMemcpyHostToDevice, stream);
    if (error != hip::kSuccess) return work.fail(EIO, error);
  }
}

// Asleep: a device needs no CPU for this.
hip::Error wait(const TransferContext& c, const gpu::Stream& stream) {
  if (auto event = gpu::Event::create(c.lane.runtime(), gpu::Event::Wait::asleep))
    if (event->record(stream) == hip::kSuccess) return event->synchronize();
  return c.runtime->hip().hipStreamSynchronize(stream.handle());
}

void move_share(WindowWork& work, Lane& lane) {
  const TransferContext& c = work.context;
  gpu::DeviceGuard guard(*c.runtime, c.device);
  if (guard.status() != hip::kSuccess) return work.fail(ENODEV, guard.status());
  auto stream = lane.stream(c.device);
  if (!stream) return work.fail(EIO, stream.error());
  InUse in_use;
  start_copies(work, (*stream)->handle(), in_use);
  if (in_use.empty()) return;
  if (hip::Error error = wait(c, **stream); error != hip::kSuccess) {
    for (auto& window : in_use) window->abandon();
    work.fail(EIO, error);
  }
}

}  // namespace

SegmentResult run_windows(const TransferContext& c, const Segment& segment, FileWindows& windows) {
  WindowWork work(c, segment, windows);
  auto before = version_of(c.file.own());
  {
    Team::Job job(*c.team, [&] {
      try {
        auto lane = c.lanes->borrow();
        move_share(work, *lane);
        c.lanes->give_back(std::move(lane));
      } catch (const std::bad_alloc&) {
        work.fail(ENOMEM);
      }
      return false;
    });
    // Opening a window takes longer than copying it; copying needs no help.
    if (!windows.all_open(c.file, c.file_offset + segment.begin, segment.length))
      job.call(static_cast<unsigned>(segment.length / FileWindows::kWindow));
    move_share(work, c.lane);
  }
  auto after = version_of(c.file.own());
  if (work.error == 0 && before && after && *before != *after) work.error = ESTALE;
  SegmentResult r;
  r.error = work.error;
  r.hip_error = work.hip_error;
  r.route_failed = r.error != 0 && r.error != c.cancel.reason();
  if (r.error == 0) {
    r.done = segment.length;
    r.by_route[static_cast<size_t>(Route::cached)] = r.done;
  }
  return r;
}

}  // namespace engine
