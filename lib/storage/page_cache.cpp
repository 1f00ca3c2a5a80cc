#include "storage/page_cache.h"

#include <sys/syscall.h>
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

}  // namespace storage
