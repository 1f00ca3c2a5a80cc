#include "stats.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace api {

size_t size_bucket(uint64_t bytes) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(bytes >> 12)), kSizeBuckets - 1);
}

Stats::Stats() : fd_(memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_ && ftruncate(fd_.get(), sizeof(StatsPage)) == 0 &&
      fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    if (auto mapped = posix::Mapping::shared(fd_.get(), sizeof(StatsPage))) mapping_ = std::move(*mapped);
  }
  if (!mapping_.data()) {
    fd_.reset();
    if (auto mapped = posix::Mapping::anonymous(sizeof(StatsPage))) mapping_ = std::move(*mapped);
  }
  if (!mapping_.data()) throw std::bad_alloc();
  page_ = new (mapping_.data()) StatsPage;
}

void Stats::count(engine::Direction direction, int device, uint64_t length, bool unaligned,
                  const engine::Outcome& outcome, uint64_t microseconds) {
  if (!enabled()) return;
  constexpr auto relaxed = std::memory_order_relaxed;
  size_t gpu =
      device >= 0 && device < static_cast<int>(kStatsGpus) ? static_cast<size_t>(device) : kStatsGpus;
  size_t route = std::min(static_cast<size_t>(outcome.route), engine::kRoutes - 1);
  TransferCounters& c = page_->gpus[gpu].transfers[route][direction == engine::Direction::write];
  if (outcome.result() < 0) {
    c.errors.fetch_add(1, relaxed);
  } else {
    c.ops.fetch_add(1, relaxed);
    c.bytes.fetch_add(outcome.bytes, relaxed);
    c.microseconds.fetch_add(microseconds, relaxed);
    c.sizes[size_bucket(length)].fetch_add(1, relaxed);
    if (unaligned) c.unaligned.fetch_add(1, relaxed);
  }
  page_->reasons[std::min(static_cast<size_t>(outcome.reason), kReasons - 1)].fetch_add(1, relaxed);
  if (outcome.reason == engine::Reason::failed) page_->failovers.fetch_add(1, relaxed);
}

}  // namespace api
