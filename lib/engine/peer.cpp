#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "engine/chunk_cursor.h"
#include "engine/chunk_result.h"
#include "engine/transfer.h"
#include "storage/file.h"

namespace engine {
namespace {

// A call cannot be interrupted, so this bounds how long a cancelled request goes on (about 10 ms at 6 GB/s).
constexpr uint64_t kLargestCall = 64 << 20;
// Each call pins its memory and waits for the disk; that should stay small against moving the bytes.
constexpr uint64_t kSmallestCall = 4 << 20;
constexpr uint64_t kCallsAtOnce = 4;

// The route itself does not work here: another one will. Anything else is the file's own error.
bool speaks_against_route(int error) {
  switch (error) {
    case ENODEV:
    case EREMOTEIO:
    case EXDEV:
    case ENOTTY:
    case ENOSYS:
    case EOPNOTSUPP:
    case EPERM:
    case ENOMEM:
    case EINVAL:
    case EFAULT:
      return true;
    default:
      return false;
  }
}

// About the file and the device; others are about this buffer or this moment.
bool lasts(int error) {
  return error == ENODEV || error == EREMOTEIO || error == EXDEV || error == ENOTTY || error == ENOSYS ||
         error == EOPNOTSUPP;
}

SegmentResult not_begun(int error, hip::Error hip_error) {
  SegmentResult r;
  r.error = error;
  r.hip_error = hip_error;
  r.last = Route::peer;
  r.route_failed = true;
  return r;
}

uint64_t call_bytes(uint64_t length) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t share = (length / kCallsAtOnce + kMiB - 1) / kMiB * kMiB;
  return std::clamp(share, kSmallestCall, kLargestCall);
}

// What the threads that move one segment share.
struct PeerWork {
  PeerWork(const TransferContext& c, const Segment& s)
      : context(c), cursor(c.file_offset, {s.begin, s.begin + s.length}, call_bytes(s.length)) {}

  const TransferContext& context;
  ChunkCursor cursor;
  std::mutex mutex;
  std::vector<ChunkResult> chunks;
  hip::Error hip_error = hip::kSuccess;
};

// One synchronous call; the device is current.
void move_chunk(PeerWork& work, const Extent& extent) {
  const TransferContext& c = work.context;
  const auto& hip = c.runtime->hip();
  const auto call = c.direction == Direction::read ? hip.hipAmdFileRead : hip.hipAmdFileWrite;
  uint64_t copied = 0;
  int32_t status = 0;
  hip::AmdFileHandle handle{};
  handle.fd = c.file.direct();
  const hip::Error error = call(handle, c.address + extent.begin, extent.length(),
                                static_cast<int64_t>(c.file_offset + extent.begin), &copied, &status);
  ChunkResult r{extent.begin, std::min(copied, extent.length()), 0, Route::peer, false, false};
  if (status != 0 || error != hip::kSuccess) {
    r.error = status != 0 ? std::abs(status) : EIO;
    // A HIP failure without a status says nothing about the file: another route may well work.
    r.route_failed = status == 0 || speaks_against_route(r.error);
    hip.hipGetLastError();
  } else if (r.moved < extent.length()) {
    // Reads are cut to the file's size before, so this is an end of file that has just moved, or an error
    // that the call does not tell: the next route finds out which.
    r.error = EIO;
    r.route_failed = true;
  }
  if (r.error) work.cursor.stop();
  std::lock_guard lock(work.mutex);
  work.chunks.push_back(r);
  if (error != hip::kSuccess) work.hip_error = error;
}

void move_chunks(PeerWork& work) {
  while (!work.context.cancel.reason()) {
    const Extent extent = work.cursor.take();
    if (extent.length() == 0) return;
    move_chunk(work, extent);
  }
}

bool help(PeerWork& work) try {
  gpu::DeviceGuard guard(*work.context.runtime, work.context.device);
  if (guard.status() == hip::kSuccess) move_chunks(work);
  return false;
} catch (const std::bad_alloc&) {  // the owner finds the gap
  work.cursor.stop();
  return false;
}

// Writes behind the end of the file go one after the other: if one fails, the file does not end in what the next ones
// wrote.
unsigned helpers(const TransferContext& c, const Segment& s) {
  if (c.direction == Direction::write && !c.file.reaches(c.file_offset + s.begin + s.length)) return 0;
  return static_cast<unsigned>(std::min((s.length - 1) / call_bytes(s.length), kCallsAtOnce - 1));
}

}  // namespace

SegmentResult run_peer(const TransferContext& c, const Segment& segment) {
  gpu::DeviceGuard guard(*c.runtime, c.device);
  if (guard.status() != hip::kSuccess) return not_begun(ENODEV, guard.status());
  if (c.file.direct() < 0) return not_begun(EMFILE, hip::kSuccess);
  PeerWork work(c, segment);
  {
    Team::Job job(c.callers, [&work](const Team::Job&) { return help(work); });
    if (const unsigned count = helpers(c, segment)) job.call(count);
    move_chunks(work);
  }
  SegmentResult r = before_gap(work.chunks, segment.begin);
  r.hip_error = work.hip_error;
  r.last = Route::peer;
  r.lasting = r.route_failed && lasts(r.error);
  r.by_route[static_cast<size_t>(Route::peer)] = r.done;
  if (r.done < segment.length && !r.error) r.error = c.cancel.reason() ? c.cancel.reason() : ENOMEM;
  return r;
}

}  // namespace engine
