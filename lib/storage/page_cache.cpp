#include "storage/page_cache.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace storage {
namespace {

constexpr long kCachestat = 451;  // __NR_cachestat, the same on every architecture

struct CachestatRange {
  uint64_t off, len;
};
struct Cachestat {
  uint64_t cache, dirty, writeback, evicted, recently_evicted;
};

}  // namespace

std::optional<Residency> residency(int fd, uint64_t offset, uint64_t length) {
  CachestatRange range{offset, length};
  Cachestat counted{};
  if (length == 0 || syscall(kCachestat, fd, &range, &counted, 0) != 0) return std::nullopt;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return Residency{counted.cache, (offset + length - 1) / page - offset / page + 1};
}

Residency probe_residency(int buffered, uint64_t offset, uint64_t length) {
  auto cached = [buffered](uint64_t at) {
    char byte;
    iovec to{&byte, 1};
    return preadv2(buffered, &to, 1, static_cast<off_t>(at), RWF_NOWAIT) >= 0;
  };
  if (!cached(offset)) return {0, 2};
  return {cached(offset + length - 1) ? 2u : 1u, 2};
}

Residency residency(const File& file, uint64_t offset, uint64_t length) {
  if (auto known = residency(file.own(), offset, length)) return *known;
  return file.buffered() < 0 ? Residency{0, 1} : probe_residency(file.buffered(), offset, length);
}

}  // namespace storage
