#include "engine/window_transfer.h"

#include <algorithm>
#include <vector>

#include "engine/chunk_cursor.h"

namespace engine {
namespace {

using InUse = std::vector<std::shared_ptr<FileWindow>>;

// Of one window each. 0, or the errno that stopped them; copies may have been started all the same.
int start_copies(const TransferContext& c, const Segment& segment, FileWindows& windows, hip::Stream stream,
                 InUse& in_use, hip::Error& hip_error) {
  ChunkCursor cursor(c.file_offset, {segment.begin, segment.begin + segment.length}, FileWindows::kWindow);
  for (Extent e = cursor.take(); e.length() > 0; e = cursor.take()) {
    if (int reason = c.cancel.reason()) return reason;
    const uint64_t at = c.file_offset + e.begin;
    auto window = windows.get(c.file, at);
    if (!window) return ESTALE;
    in_use.push_back(window);
    hip_error = c.runtime->hip().hipMemcpyAsync(c.address + e.begin, window->at(at), e.length(),
                                                hip::kMemcpyHostToDevice, stream);
    if (hip_error != hip::kSuccess) return EIO;
  }
  return 0;
}

constexpr uint64_t kWorthSleeping = 4 << 20;  // to be woken takes as long as a MiB or two

// A device needs no CPU for this.
hip::Error wait(const TransferContext& c, const gpu::Stream& stream, uint64_t bytes) {
  if (bytes < kWorthSleeping) return c.runtime->hip().hipStreamSynchronize(stream.handle());
  if (auto event = gpu::Event::create(c.lane.runtime(), gpu::Event::Wait::asleep))
    if (event->record(stream) == hip::kSuccess) return event->synchronize();
  return c.runtime->hip().hipStreamSynchronize(stream.handle());
}

SegmentResult move(const TransferContext& c, const Segment& segment, FileWindows& windows) {
  SegmentResult r;
  auto stream = c.lane.stream(c.device);
  if (!stream) {
    r.error = EIO;
    r.hip_error = stream.error();
    return r;
  }
  InUse in_use;
  r.error = start_copies(c, segment, windows, (*stream)->handle(), in_use, r.hip_error);
  if (in_use.empty()) return r;
  if (hip::Error error = wait(c, **stream, segment.length); error != hip::kSuccess) {
    for (auto& window : in_use) window->abandon();
    r.error = EIO;
    r.hip_error = error;
  }
  return r;
}

}  // namespace

SegmentResult run_windows(const TransferContext& c, const Segment& segment, FileWindows& windows) {
  gpu::DeviceGuard guard(*c.runtime, c.device);
  SegmentResult r;
  r.error = ENODEV;
  r.hip_error = guard.status();
  if (guard.status() == hip::kSuccess) {
    auto before = version_of(c.file.own());
    r = move(c, segment, windows);
    auto after = version_of(c.file.own());
    if (r.error == 0 && before && after && *before != *after) r.error = ESTALE;
  }
  r.route_failed = r.error != 0 && r.error != c.cancel.reason();
  if (r.error == 0) {
    r.done = segment.length;
    r.by_route[static_cast<size_t>(Route::cached)] = r.done;
  }
  return r;
}

}  // namespace engine
