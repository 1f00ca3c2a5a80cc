#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "engine/transfer.h"

namespace engine {
namespace {

// A call cannot be interrupted, so this bounds how long a cancelled request goes on (about 10 ms at 6 GB/s).
constexpr uint64_t kPeerChunk = 64 << 20;

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

}  // namespace

SegmentResult run_peer(const TransferContext& c, const Segment& segment) {
  SegmentResult r;
  gpu::DeviceGuard guard(*c.runtime, c.device);
  if (guard.status() != hip::kSuccess) {
    r.error = ENODEV;
    r.hip_error = guard.status();
    r.route_failed = true;
    return r;
  }
  if (c.file.direct() < 0) {
    r.error = EMFILE;
    r.route_failed = true;
    return r;
  }
  auto call =
      c.direction == Direction::read ? c.runtime->hip().hipAmdFileRead : c.runtime->hip().hipAmdFileWrite;
  while (r.done < segment.length) {
    if ((r.error = c.cancel.reason())) return r;
    uint64_t at = segment.begin + r.done;
    uint64_t length = std::min(segment.length - r.done, kPeerChunk);
    uint64_t copied = 0;
    int32_t status = 0;
    hip::AmdFileHandle handle{};
    handle.fd = c.file.direct();
    hip::Error error =
        call(handle, c.address + at, length, static_cast<int64_t>(c.file_offset + at), &copied, &status);
    copied = std::min(copied, length);
    r.done += copied;
    r.by_route[static_cast<size_t>(Route::peer)] += copied;
    if (status != 0 || error != hip::kSuccess) {
      r.hip_error = error;
      r.error = status != 0 ? std::abs(status) : EIO;
      // A HIP failure without a status says nothing about the file: another route may well work.
      r.route_failed = status == 0 || speaks_against_route(r.error);
      c.runtime->hip().hipGetLastError();
      return r;
    }
    if (copied < length) {
      // Reads are cut to the file's size before, so this is an end of file that has just moved, or an error
      // that the call does not tell: the next route finds out which.
      r.error = EIO;
      r.route_failed = true;
      return r;
    }
  }
  return r;
}

}  // namespace engine
