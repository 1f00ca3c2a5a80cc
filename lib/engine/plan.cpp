#include "engine/plan.h"

#include <algorithm>

#include "engine/extent.h"

namespace engine {
namespace {

// Direct writes keep off pages that buffered edges share, so that the page cache never has to be thrown away
// dirty.
constexpr uint64_t kWriteBlock = 4096;

Reason switched_off(const Situation& s, Route route) {
  if (!s.allowed.has(route)) return Reason::disabled;
  if (s.failed_now.has(route)) return Reason::failed;
  return Reason::none;
}

// The part of the request that is whole blocks of the disk.
Extent whole_blocks(const Situation& s) {
  uint64_t block =
      s.direction == Direction::write ? std::max<uint64_t>(s.offset_align, kWriteBlock) : s.offset_align;
  uint64_t first = (s.file_offset + block - 1) / block * block;
  uint64_t last = (s.file_offset + s.length) / block * block;
  if (first >= last) return {};
  return {first - s.file_offset, last - s.file_offset};
}

bool memory_aligned(const Situation& s, const Extent& e) {
  return s.memory_align != 0 && (s.address + e.begin) % s.memory_align == 0;
}

Reason file_refuses_direct(const Situation& s) {
  if (s.file == storage::FileKind::other) return Reason::not_regular;
  if (s.offset_align == 0) return Reason::no_direct_io;
  return s.direct_failed_before ? Reason::failed_before : Reason::none;
}

// A read(2) whose target is VRAM, which the kernel's copy then stores to.
Reason refuse_store(const Situation& s) {
  if (Reason r = switched_off(s, Route::store); r != Reason::none) return r;
  if (!s.stores || s.memory_is_pages || s.memory != gpu::MemoryKind::device) return Reason::not_pages;
  if (s.direction != Direction::read || s.file != storage::FileKind::regular || s.length > kSmall)
    return Reason::not_small;
  return Reason::none;
}

Reason refuse_peer(const Situation& s) {
  if (Reason r = switched_off(s, Route::peer); r != Reason::none) return r;
  if (s.peer_failed_before) return Reason::failed_before;
  if (s.memory == gpu::MemoryKind::peer) return Reason::imported_memory;
  if (s.memory_is_pages || s.memory != gpu::MemoryKind::device) return Reason::host_pages;
  if (!s.runtime_has_ais) return Reason::no_runtime_ais;
  if (s.device_objection != Reason::none) return s.device_objection;
  if (s.file == storage::FileKind::other) return Reason::not_regular;
  if (s.file_objection != Reason::none)
    return s.file_objection;  // says more than that there is no direct I/O
  if (Reason r = file_refuses_direct(s); r != Reason::none) return r;
  Extent blocks = whole_blocks(s);
  if (blocks.length() == 0) return s.length < s.offset_align ? Reason::too_small : Reason::offset_alignment;
  if (!memory_aligned(s, blocks)) return Reason::memory_alignment;
  return refuse_store(s) == Reason::none ? Reason::too_small : Reason::none;
}

Reason refuse_pages(const Situation& s) {
  if (!s.memory_is_pages) return Reason::not_pages;
  if (Reason r = switched_off(s, Route::pages); r != Reason::none) return r;
  if (s.pages_failed_before) return Reason::failed_before;
  if (Reason r = file_refuses_direct(s); r != Reason::none) return r;
  Extent blocks = whole_blocks(s);
  if (blocks.length() < kDirectMinimum) return Reason::too_small;
  if (!memory_aligned(s, blocks)) return Reason::memory_alignment;
  return Reason::none;
}

Reason refuse_staged(const Situation& s) {
  if (Reason r = switched_off(s, Route::staged); r != Reason::none) return r;
  return gpu::copies_to(s.memory) ? Reason::none : Reason::imported_memory;
}

// From the page cache straight into the memory: by the CPU where it can address it, by the device where it can read the
// page cache.
Reason refuse_cached(const Situation& s) {
  if (Reason r = switched_off(s, Route::cached); r != Reason::none) return r;
  if (s.windows && s.memory == gpu::MemoryKind::device && s.direction == Direction::read) return Reason::none;
  return s.memory_is_pages ? Reason::none : Reason::not_pages;
}

void add(Plan& p, const Extent& e, Route route, bool direct) {
  if (e.length() > 0) p.segments.push_back({e.begin, e.length(), route, direct});
}

}  // namespace

Route Plan::route() const {
  auto longest = std::max_element(segments.begin(), segments.end(),
                                  [](const Segment& a, const Segment& b) { return a.length < b.length; });
  return longest == segments.end() ? Route::none : longest->route;
}

bool Plan::is_direct() const {
  return std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return s.direct; });
}

Reason best_refusal(const Situation& s) { return s.memory_is_pages ? refuse_pages(s) : refuse_peer(s); }

Plan plan(const Situation& s) {
  Plan p;
  auto refused = [&p](Route r) -> Reason& { return p.refused[static_cast<size_t>(r)]; };
  refused(Route::peer) = refuse_peer(s);
  refused(Route::pages) = refuse_pages(s);
  refused(Route::cached) = refuse_cached(s);
  refused(Route::staged) = refuse_staged(s);
  refused(Route::store) = refuse_store(s);
  p.reason = best_refusal(s);
  if (s.length == 0) return p;

  const bool staged = refused(Route::staged) == Reason::none;
  // Bytes that are not whole blocks. Into pages they can only go through the page cache, whatever is switched
  // off.
  Route edge = s.memory_is_pages && !s.failed_now.has(Route::cached) ? Route::cached
               : staged                                              ? Route::staged
                                                                     : Route::none;
  Route bulk = refused(Route::peer) == Reason::none     ? Route::peer
               : refused(Route::pages) == Reason::none  ? Route::pages
               : refused(Route::store) == Reason::none  ? Route::store
               : refused(Route::cached) == Reason::none ? Route::cached
               : staged                                 ? Route::staged
                                                        : edge;
  bool edges = (bulk == Route::peer || bulk == Route::pages) && whole_blocks(s).length() != s.length;
  if (edges && edge == Route::none) bulk = Route::none;
  if (bulk == Route::none) return p;
  refused(bulk) = Reason::none;

  const Extent all{0, s.length};
  Extent middle = all;
  bool direct = bulk == Route::peer || bulk == Route::pages;
  if (bulk == Route::staged && file_refuses_direct(s) == Reason::none &&
      whole_blocks(s).length() >= kDirectMinimum)
    direct = true;
  if (direct) middle = whole_blocks(s);
  add(p, {0, middle.begin}, edge, false);
  add(p, middle, bulk, direct);
  add(p, {middle.end, s.length}, edge, false);
  return p;
}

std::optional<ShortWay> short_way(const Situation& s) {
  if (s.direction != Direction::read || s.file != storage::FileKind::regular || s.length == 0 ||
      s.length > kSmall)
    return std::nullopt;
  if (refuse_peer(s) == Reason::none) return std::nullopt;
  if (refuse_store(s) == Reason::none) return ShortWay::store;
  if (s.memory_is_pages)
    return refuse_cached(s) == Reason::none ? std::optional(ShortWay::pages) : std::nullopt;
  return refuse_staged(s) == Reason::none ? std::optional(ShortWay::pinned) : std::nullopt;
}

}  // namespace engine
