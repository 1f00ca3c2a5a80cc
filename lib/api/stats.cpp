#include "stats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>

namespace api {
namespace {

constexpr int kStatsSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// The number may have come to mean something else, so the descriptor has to show that it is such a page.
posix::Fd inherited_memory() {
  const char* text = getenv(kStatsDescriptor);
  if (!text) return {};
  int number = -1;
  const char* end = text + strlen(text);
  if (auto parsed = std::from_chars(text, end, number); parsed.ec != std::errc() || parsed.ptr != end)
    return {};
  if (number < 0 || fcntl(number, F_GET_SEALS) != kStatsSeals) return {};
  struct stat st;
  if (fstat(number, &st) != 0 || st.st_size != sizeof(StatsPage)) return {};
  return posix::Fd(fcntl(number, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

size_t size_bucket(uint64_t bytes) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(bytes >> 12)), kSizeBuckets - 1);
}

posix::Fd make_stats_memory() {
  posix::Fd fd(memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), sizeof(StatsPage)) != 0 || fcntl(fd.get(), F_ADD_SEALS, kStatsSeals) != 0)
    return {};
  return fd;
}

Stats::Stats() : fd_(inherited_memory()) {
  const bool inherited = static_cast<bool>(fd_);
  if (!inherited) fd_ = make_stats_memory();
  if (fd_)
    if (auto mapped = posix::Mapping::shared(fd_.get(), sizeof(StatsPage))) mapping_ = std::move(*mapped);
  if (!mapping_.data()) {
    fd_.reset();
    if (auto mapped = posix::Mapping::anonymous(sizeof(StatsPage))) mapping_ = std::move(*mapped);
  }
  if (!mapping_.data()) throw std::bad_alloc();
  // What was inherited may hold another process's numbers already: they add up.
  page_ = inherited && fd_ ? reinterpret_cast<StatsPage*>(mapping_.data()) : new (mapping_.data()) StatsPage;
  page_->version = kStatsVersion;
}

void Stats::count(engine::Direction direction, int device, uint64_t length, bool unaligned,
                  const engine::Outcome& outcome, uint64_t microseconds) {
  if (!enabled()) return;
  constexpr auto relaxed = std::memory_order_relaxed;
  size_t gpu =
      device >= 0 && device < static_cast<int>(kStatsGpus) ? static_cast<size_t>(device) : kStatsGpus;
  size_t route = std::min(static_cast<size_t>(outcome.route), engine::kRoutes - 1);
  const bool writes = direction == engine::Direction::write;
  TransferCounters& c = page_->gpus[gpu].transfers[route][writes];
  if (outcome.result() < 0) {
    c.errors.fetch_add(1, relaxed);
  } else {
    c.ops.fetch_add(1, relaxed);
    for (size_t r = 0; r < engine::kRoutes; r++)
      if (outcome.by_route[r])
        page_->gpus[gpu].transfers[r][writes].bytes.fetch_add(outcome.by_route[r], relaxed);
    c.microseconds.fetch_add(microseconds, relaxed);
    c.sizes[size_bucket(length)].fetch_add(1, relaxed);
    if (unaligned) c.unaligned.fetch_add(1, relaxed);
  }
  page_->reasons[std::min(static_cast<size_t>(outcome.reason), kReasons - 1)].fetch_add(1, relaxed);
  if (outcome.reason == engine::Reason::failed) page_->failovers.fetch_add(1, relaxed);
}

}  // namespace api
