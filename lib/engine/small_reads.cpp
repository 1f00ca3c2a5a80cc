#include "engine/small_reads.h"

#include <algorithm>
#include <optional>

namespace engine {
namespace {

// Reads all of `reads`, each into its place; `place` says where.
template <typename Place>
void read_files(IoQueue& queue, std::span<SmallRead> reads, Place place) {
  for (size_t i = 0; i < reads.size(); i++)
    queue.submit({true, reads[i].file->buffered(), place(i), reads[i].length, reads[i].file_offset, i});
  for (size_t i = 0; i < reads.size(); i++) {
    IoCompletion done = queue.wait();
    reads[done.tag].result = done.result;
  }
}

void copy_to_device(Lane& lane, const gpu::Runtime& runtime, int device, std::span<SmallRead> reads,
                    gpu::PinnedSlot& slot) {
  auto fail_all = [&](hip::Error e) {
    for (auto& read : reads) {
      read.hip_error = e;
      read.result = -EIO;
    }
  };
  auto stream = lane.stream(device);
  if (!stream) return fail_all(stream.error());
  for (size_t i = 0; i < reads.size(); i++) {
    SmallRead& read = reads[i];
    if (read.result <= 0) continue;
    read.hip_error = runtime.hip().hipMemcpyAsync(read.address, slot.data() + i * kSmallRead,
                                                  static_cast<size_t>(read.result), hip::kMemcpyHostToDevice,
                                                  (*stream)->handle());
    if (read.hip_error != hip::kSuccess) read.result = -EIO;
  }
  if (hip::Error e = runtime.hip().hipStreamSynchronize((*stream)->handle()); e != hip::kSuccess) {
    slot.abandon();
    fail_all(e);
  }
}

}  // namespace

void run_small_reads(Lane& lane, const gpu::Runtime* runtime, gpu::PinnedPool* pool, bool memory_is_pages,
                     int device, std::span<SmallRead> reads) {
  IoQueue& queue = lane.queue();
  size_t at_once = queue.depth();
  std::optional<gpu::DeviceGuard> guard;
  std::optional<gpu::PinnedSlot> slot;
  if (!memory_is_pages) {
    guard.emplace(*runtime, device);
    auto acquired = guard->status() == hip::kSuccess ? pool->acquire() : tl::unexpected(guard->status());
    if (!acquired) {
      for (auto& read : reads) {
        read.result = -ENOMEM;
        read.hip_error = acquired.error();
      }
      return;
    }
    slot.emplace(std::move(*acquired));
    at_once = std::min(at_once, slot->size() / kSmallRead);
  }
  for (size_t first = 0; first < reads.size(); first += at_once) {
    auto group = reads.subspan(first, std::min(at_once, reads.size() - first));
    if (memory_is_pages) {
      read_files(queue, group, [&](size_t i) { return group[i].address; });
    } else {
      read_files(queue, group, [&](size_t i) { return slot->data() + i * kSmallRead; });
      copy_to_device(lane, *runtime, device, group, *slot);
      if (!slot->data()) return;
    }
  }
}

}  // namespace engine
