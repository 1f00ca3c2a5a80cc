// The C entry points for statistics: AMD's structures, filled from the counters.
#include <cstddef>
#include <cstring>

#include "driver.h"

using namespace api;

static_assert(sizeof(hipFileStatsLevel1_t) == 512);
static_assert(sizeof(hipFileStatsLevel2_t) == 1024 &&
              offsetof(hipFileStatsLevel2_t, read_size_kb_hist) == 512);
static_assert(sizeof(hipFilePerGpuStats_t) == 248);
static_assert(sizeof(hipFileStatsLevel3_t) == 5000 && offsetof(hipFileStatsLevel3_t, num_gpus) == 1024 &&
              offsetof(hipFileStatsLevel3_t, per_gpu_stats) == 1032);

namespace {

constexpr int kRead = 0, kWrite = 1;

struct Sum {
  uint64_t ops = 0, bytes = 0, microseconds = 0, errors = 0, unaligned = 0;
  void add(const TransferCounters& c) {
    ops += c.ops;
    bytes += c.bytes;
    microseconds += c.microseconds;
    errors += c.errors;
    unaligned += c.unaligned;
  }
  uint64_t bandwidth() const { return microseconds ? bytes * 1'000'000 / microseconds : 0; }
  uint64_t latency() const { return ops ? microseconds / ops : 0; }
  uint64_t ops_per_second() const { return microseconds ? ops * 1'000'000 / microseconds : 0; }
};

Sum sum_of(const StatsPage& page, int direction) {
  Sum sum;
  for (const auto& gpu : page.gpus)
    for (const auto& route : gpu.transfers) sum.add(route[direction]);
  return sum;
}

hipFileOpCounter_t counter(const OpCounter& c) { return {c.ok, c.err}; }

void fill(hipFileStatsLevel1_t& out, const StatsPage& page) {
  memset(&out, 0, sizeof out);
  const Sum read = sum_of(page, kRead), write = sum_of(page, kWrite);
  out.read_ops = {read.ops, read.errors};
  out.write_ops = {write.ops, write.errors};
  out.hdl_register_ops = counter(page.file_register);
  out.hdl_deregister_ops = counter(page.file_deregister);
  out.buf_register_ops = counter(page.buffer_register);
  out.buf_deregister_ops = counter(page.buffer_deregister);
  out.read_bytes = read.bytes;
  out.write_bytes = write.bytes;
  out.read_bw_bytes_per_sec = read.bandwidth();
  out.write_bw_bytes_per_sec = write.bandwidth();
  out.read_lat_avg_us = read.latency();
  out.write_lat_avg_us = write.latency();
  out.read_ops_per_sec = read.ops_per_second();
  out.write_ops_per_sec = write.ops_per_second();
  out.read_lat_sum_us = read.microseconds;
  out.write_lat_sum_us = write.microseconds;
  out.batch_submit_ops = counter(page.batch_submit);
  out.batch_complete_ops = counter(page.batch_complete);
  out.batch_setup_ops = counter(page.batch_setup);
  out.batch_cancel_ops = counter(page.batch_cancel);
  out.batch_destroy_ops = counter(page.batch_destroy);
  out.batch_enqueued_ops = counter(page.batch_enqueued);
  out.batch_processed_ops = counter(page.batch_processed);
  out.batch_total_submit_ops = counter(page.batch_submit);
  out.batch_read_bytes = page.batch_read_bytes;
  out.batch_write_bytes = page.batch_write_bytes;
  if (uint64_t submits = page.batch_submit.ok)
    out.batch_submit_lat_avg_us = page.batch_submit_microseconds / submits;
  out.batch_submit_lat_sum_us = page.batch_submit_microseconds;
}

void fill(hipFileStatsLevel2_t& out, const StatsPage& page) {
  fill(out.basic, page);
  for (size_t bucket = 0; bucket < kSizeBuckets; bucket++) {
    out.read_size_kb_hist[bucket] = out.write_size_kb_hist[bucket] = 0;
    for (const auto& gpu : page.gpus)
      for (const auto& route : gpu.transfers) {
        out.read_size_kb_hist[bucket] += route[kRead].sizes[bucket];
        out.write_size_kb_hist[bucket] += route[kWrite].sizes[bucket];
      }
  }
}

void fill(hipFilePerGpuStats_t& out, const GpuCounters& gpu, const StatsPage& page) {
  memset(&out, 0, sizeof out);
  memcpy(out.uuid, gpu.uuid, sizeof out.uuid);
  auto by_route = [&gpu](engine::Route route, int direction) {
    return gpu.transfers[static_cast<size_t>(route)][direction].ops.load();
  };
  Sum read, write;
  for (const auto& route : gpu.transfers) {
    read.add(route[kRead]);
    write.add(route[kWrite]);
  }
  out.read_bytes = read.bytes;
  out.read_bw_bytes_per_sec = read.bandwidth();
  out.read_duration_us = read.microseconds;
  out.n_total_reads = read.ops;
  out.n_p2p_reads = out.n_nvfs_reads = by_route(engine::Route::peer, kRead);
  out.n_posix_reads = read.ops - out.n_p2p_reads;
  out.n_unaligned_reads = read.unaligned;
  out.n_reads_err = read.errors;
  out.write_bytes = write.bytes;
  out.write_bw_bytes_per_sec = write.bandwidth();
  out.write_duration_us = write.microseconds;
  out.n_total_writes = write.ops;
  out.n_p2p_writes = out.n_nvfs_writes = by_route(engine::Route::peer, kWrite);
  out.n_posix_writes = write.ops - out.n_p2p_writes;
  out.n_unaligned_writes = write.unaligned;
  out.n_writes_err = write.errors;
  out.n_mmap_ok = page.buffer_register.ok;
  out.n_mmap_err = page.buffer_register.err;
  out.n_mmap = out.n_mmap_ok + out.n_mmap_err;
  out.n_mmap_free = page.buffer_deregister.ok;
}

bool used(const GpuCounters& gpu) {
  for (const auto& route : gpu.transfers)
    for (const auto& direction : route)
      if (direction.ops || direction.errors) return true;
  return false;
}

void fill(hipFileStatsLevel3_t& out, const StatsPage& page) {
  memset(&out, 0, sizeof out);
  fill(out.detailed, page);
  for (size_t g = 0; g < kStatsGpus; g++) {
    if (!used(page.gpus[g])) continue;
    out.num_gpus++;
    fill(out.per_gpu_stats[g], page.gpus[g], page);
  }
}

template <typename T>
hipFileError_t get(T* stats) {
  return guarded([&] {
    if (!stats) return failure(hipFileInvalidValue);
    Stats& counters = Driver::instance().stats();
    if (!counters.available()) return failure(hipFileInternalError);
    fill(*stats, counters.page());
    return success();
  });
}

}  // namespace

extern "C" {
hipFileError_t hipFileGetStatsL1(hipFileStatsLevel1_t* stats) { return get(stats); }
hipFileError_t hipFileGetStatsL2(hipFileStatsLevel2_t* stats) { return get(stats); }
hipFileError_t hipFileGetStatsL3(hipFileStatsLevel3_t* stats) { return get(stats); }
}
