#include "engine/small_reads.h"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <optional>

namespace engine {
namespace {

constexpr size_t kGranule = 16;      // what the kernel moves at once
constexpr size_t kWorthALaunch = 4;  // copies; a launch costs about as much as two

constexpr size_t kShare = 8;          // reads that one thread takes at a time
constexpr size_t kWorthAThread = 64;  // reads; to wake one costs as much as a dozen
constexpr int64_t kNotRead = INT64_MIN;

// What is wholly in the page cache; the rest stays kNotRead. An ordinary call is cheaper than a ring there.
template <typename Place>
void read_cached(Team& team, std::span<SmallRead> reads, Place place) {
  std::atomic<size_t> next{0};
  auto work = [&](const auto&...) {
    for (size_t first = next.fetch_add(kShare); first < reads.size(); first = next.fetch_add(kShare))
      for (size_t i = first; i < std::min(first + kShare, reads.size()); i++) {
        SmallRead& read = reads[i];
        iovec to{place(i), read.length};
        const ssize_t n =
            preadv2(read.file->buffered(), &to, 1, static_cast<off_t>(read.file_offset), RWF_NOWAIT);
        read.result = n == static_cast<ssize_t>(read.length) ? n : kNotRead;
      }
    return false;
  };
  Team::Job job(team, work);
  if (reads.size() >= 2 * kWorthAThread)
    job.call(static_cast<unsigned>(std::min<size_t>(reads.size() / kWorthAThread - 1, 8)));
  work();
}

// Reads all of `reads`, or what waits for no disk, each into its place; `place` says where.
template <typename Place>
void read_files(const SmallReadContext& c, std::span<SmallRead> reads, Patience patience, Place place) {
  read_cached(c.team, reads, place);
  if (patience == Patience::none) {
    for (SmallRead& read : reads)
      if (read.result == kNotRead) read.result = -EAGAIN;
    return;
  }
  std::vector<size_t> left;
  for (size_t i = 0; i < reads.size(); i++)
    if (reads[i].result == kNotRead) left.push_back(i);
  if (left.empty()) return;
  IoQueue& queue = c.lane.queue();
  size_t submitted = 0;
  for (size_t ended = 0; ended < left.size(); ended++) {
    for (; submitted < left.size() && submitted - ended < queue.depth(); submitted++) {
      const size_t i = left[submitted];
      queue.submit({true, reads[i].file->buffered(), place(i), reads[i].length, reads[i].file_offset, i});
    }
    IoCompletion done = queue.wait();
    reads[done.tag].result = done.result;
  }
}

// What was read, joined where both ends follow each other.
std::vector<kernels::Segment> segments_of(std::span<const SmallRead> reads, const SlotLayout& layout,
                                          const char* slot) {
  std::vector<kernels::Segment> segments;
  for (size_t i = 0; i < reads.size(); i++) {
    if (reads[i].result <= 0) continue;
    const char* source = slot + layout.at[i];
    const auto length = static_cast<uint64_t>(reads[i].result);
    if (!segments.empty()) {
      kernels::Segment& last = segments.back();
      if (static_cast<const char*>(last.source) + last.length == source &&
          static_cast<char*>(last.destination) + last.length == reads[i].address) {
        last.length += length;
        continue;
      }
    }
    segments.push_back({source, reads[i].address, length});
  }
  return segments;
}

hip::Error copy_one_by_one(const gpu::Runtime& runtime, std::span<const kernels::Segment> segments,
                           hip::Stream stream) {
  for (const auto& s : segments)
    if (hip::Error e =
            runtime.hip().hipMemcpyAsync(s.destination, s.source, s.length, hip::kMemcpyHostToDevice, stream);
        e != hip::kSuccess)
      return e;
  return hip::kSuccess;
}

hip::Error copy(const SmallReadContext& c, int device, std::span<const kernels::Segment> segments, char* list,
                hip::Stream stream) {
  if (segments.size() >= kWorthALaunch && c.kernels)
    if (auto kernels = c.kernels->of(device)) {
      auto* pinned = reinterpret_cast<kernels::Segment*>(list);
      std::copy(segments.begin(), segments.end(), pinned);
      if ((*kernels)->copy({pinned, segments.size()}, stream) == hip::kSuccess) return hip::kSuccess;
      c.runtime->hip().hipGetLastError();
    }
  return copy_one_by_one(*c.runtime, segments, stream);
}

void copy_to_device(const SmallReadContext& c, int device, std::span<SmallRead> reads,
                    const SlotLayout& layout, gpu::PinnedSlot& slot) {
  auto fail_all = [&](hip::Error e) {
    for (auto& read : reads) {
      read.hip_error = e;
      read.result = -EIO;
    }
  };
  auto stream = c.lane.stream(device);
  if (!stream) return fail_all(stream.error());
  const auto segments = segments_of(reads, layout, slot.data());
  hip::Error error = copy(c, device, segments, slot.data() + layout.segments_at, (*stream)->handle());
  if (hip::Error e = c.runtime->hip().hipStreamSynchronize((*stream)->handle()); e != hip::kSuccess) {
    slot.abandon();
    if (error == hip::kSuccess) error = e;
  }
  if (error != hip::kSuccess) fail_all(error);
}

tl::expected<gpu::PinnedSlot, hip::Error> slot_of(gpu::PinnedPool& pool, Patience patience) {
  if (patience == Patience::any) return pool.acquire();
  auto slot = pool.try_acquire();
  if (!slot) return tl::unexpected(hip::kSuccess);
  return std::move(*slot);
}

}  // namespace

SlotLayout lay_out(std::span<const SmallRead> reads, size_t slot_bytes) {
  SlotLayout layout;
  size_t end = 0;
  for (size_t i = 0; i < reads.size(); i++) {
    const bool follows = i > 0 && reads[i - 1].address + reads[i - 1].length == reads[i].address;
    size_t at = end;
    if (!follows) {
      const size_t remainder = reinterpret_cast<uintptr_t>(reads[i].address) % kGranule;
      at = (end + kGranule - 1) / kGranule * kGranule + remainder;
    }
    const size_t list = (at + reads[i].length + kGranule - 1) / kGranule * kGranule;
    if (list + (i + 1) * sizeof(kernels::Segment) > slot_bytes) break;
    layout.at.push_back(at);
    layout.segments_at = list;
    end = at + reads[i].length;
  }
  return layout;
}

void run_small_reads(const SmallReadContext& c, bool memory_is_pages, int device, std::span<SmallRead> reads,
                     Patience patience) {
  if (memory_is_pages) return read_files(c, reads, patience, [&](size_t i) { return reads[i].address; });
  auto fail = [&](hip::Error error) {
    for (auto& read : reads) {
      read.result = patience == Patience::none ? -EAGAIN : -ENOMEM;
      read.hip_error = error;
    }
  };
  gpu::DeviceGuard guard(*c.runtime, device);
  if (guard.status() != hip::kSuccess) return fail(guard.status());
  auto slot = slot_of(*c.pool, patience);
  if (!slot) return fail(slot.error());
  while (!reads.empty() && slot->data()) {
    const SlotLayout layout = lay_out(reads, slot->size());
    if (layout.at.empty()) return fail(hip::kSuccess);
    auto group = reads.first(layout.at.size());
    read_files(c, group, patience, [&](size_t i) { return slot->data() + layout.at[i]; });
    copy_to_device(c, device, group, layout, *slot);
    reads = reads.subspan(group.size());
  }
  if (!slot->data()) fail(hip::kSuccess);
}

}  // namespace engine
