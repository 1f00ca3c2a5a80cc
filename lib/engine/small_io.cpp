#include "engine/small_io.h"

#include <sys/uio.h>

#include <cerrno>

namespace engine {
namespace {

// Until all is read, the file ends, or an error; EAGAIN: `patience` does not reach to the disk.
SmallResult read_fully(int fd, char* to, size_t length, uint64_t offset, Patience patience) {
  const int flags = patience == Patience::none ? RWF_NOWAIT : 0;
  SmallResult r;
  while (r.bytes < length) {
    iovec rest{to + r.bytes, length - r.bytes};
    ssize_t n = preadv2(fd, &rest, 1, static_cast<off_t>(offset + r.bytes), flags);
    if (n == 0) break;
    if (n > 0)
      r.bytes += static_cast<uint64_t>(n);
    else if (errno != EINTR) {
      r.error = errno;
      break;
    }
  }
  return r;
}

bool would_wait(const SmallResult& r, Patience patience) {
  return patience == Patience::none && (r.error == EAGAIN || r.error == EOPNOTSUPP);
}

}  // namespace

std::optional<SmallResult> read_small_into_pages(const storage::File& file, char* to, size_t length,
                                                 uint64_t offset, Patience patience) {
  const int fd = file.buffered();
  if (fd < 0) return std::nullopt;
  SmallResult r = read_fully(fd, to, length, offset, patience);
  if ((r.error == EFAULT && r.bytes == 0) || would_wait(r, patience)) return std::nullopt;
  return r;
}

std::optional<SmallResult> read_small_by_store(const gpu::LargeBar& bar, const storage::File& file, char* to,
                                               size_t length, uint64_t offset, Patience patience) {
  auto r = read_small_into_pages(file, to, length, offset, patience);
  if (r && r->bytes > 0) bar.flush(to + r->bytes - 1);
  return r;
}

std::optional<SmallResult> read_small_into_device(const gpu::Runtime& runtime, SmallLanes& lanes,
                                                  SmallCopies& copies, const storage::File& file, int device,
                                                  char* to, size_t length, uint64_t offset,
                                                  Patience patience) {
  const int fd = file.buffered();
  if (fd < 0) return std::nullopt;
  auto lane = lanes.take();
  if (!lane) return std::nullopt;
  gpu::DeviceGuard guard(runtime, device);
  if (guard.status() != hip::kSuccess) return std::nullopt;
  SmallResult r = read_fully(fd, lane->data(), length, offset, patience);
  if (would_wait(r, patience)) return std::nullopt;
  if (r.bytes == 0) return r;
  const auto copied = copies.copy(*lane, device, {lane->data(), to, r.bytes});
  if (!copied.settled) lane->abandon();
  if (copied.error != hip::kSuccess) {
    r.hip_error = copied.error;
    r.bytes = 0;
    r.error = copied.error == hip::kErrorOutOfMemory ? ENOMEM : EIO;
  }
  return r;
}

}  // namespace engine
