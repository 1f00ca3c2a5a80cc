#include "engine/small_io.h"

#include <unistd.h>

#include <cerrno>

namespace engine {
namespace {

// Until all is read, the file ends, or an error.
SmallResult read_fully(int fd, char* to, size_t length, uint64_t offset) {
  SmallResult r;
  while (r.bytes < length) {
    ssize_t n = pread(fd, to + r.bytes, length - r.bytes, static_cast<off_t>(offset + r.bytes));
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

}  // namespace

std::optional<SmallResult> read_small_into_pages(const storage::File& file, char* to, size_t length,
                                                 uint64_t offset) {
  const int fd = file.buffered();
  if (fd < 0) return std::nullopt;
  SmallResult r = read_fully(fd, to, length, offset);
  if (r.error == EFAULT && r.bytes == 0) return std::nullopt;
  return r;
}

std::optional<SmallResult> read_small_by_store(const gpu::LargeBar& bar, const storage::File& file, char* to,
                                               size_t length, uint64_t offset) {
  auto r = read_small_into_pages(file, to, length, offset);
  if (r && r->bytes > 0) bar.flush(to + r->bytes - 1);
  return r;
}

std::optional<SmallResult> read_small_into_device(const gpu::Runtime& runtime, SmallLanes& lanes,
                                                  SmallCopies& copies, const storage::File& file, int device,
                                                  char* to, size_t length, uint64_t offset) {
  const int fd = file.buffered();
  if (fd < 0) return std::nullopt;
  auto lane = lanes.take();
  if (!lane) return std::nullopt;
  gpu::DeviceGuard guard(runtime, device);
  if (guard.status() != hip::kSuccess) return std::nullopt;
  SmallResult r = read_fully(fd, lane->data(), length, offset);
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
