#include "engine/preallocation.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace engine {
namespace {

constexpr uint64_t kLeast = 8 << 20;  // behind the end

std::optional<uint64_t> size_of(int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(st.st_size);
}

// A write may go up to the limit; allocating beyond it is a signal.
bool sizes_are_limited() {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

Preallocation::Preallocation(const storage::File& file, uint64_t offset, uint64_t length)
    : fd_(file.own()), offset_(offset), end_(offset + length) {
  const auto size = size_of(fd_);
  if (!size || end_ < std::max(*size, offset) + kLeast || sizes_are_limited()) return;
  old_size_ = *size;
  const uint64_t begin = std::max(old_size_, offset);
  done_ = fallocate(fd_, 0, static_cast<off_t>(begin), static_cast<off_t>(end_ - begin)) == 0;
}

Preallocation::~Preallocation() {
  const uint64_t last = offset_ + written_;
  if (!done_ || last >= end_ || size_of(fd_) != end_) return;
  if (ftruncate(fd_, static_cast<off_t>(std::max(old_size_, last))) < 0)
    spdlog::warn("a write of {} bytes was cut short and leaves zeros at the end of the file: {}",
                 end_ - offset_, strerror(errno));
}

}  // namespace engine
