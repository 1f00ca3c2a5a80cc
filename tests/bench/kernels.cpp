// What the kernels bring on the GPU at hand: many 4 KiB segments in one launch, to VRAM and back, against one
// hipMemcpyAsync for each and against one copy of as many bytes; and CRC32C of VRAM against a copy of it back.
// Runs interleaved, prints medians and ratios to a baseline of the same run, and writes JSON.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "gpu/hip.h"
#include "gpu/stream.h"
#include "kernels/code_objects.h"
#include "kernels/launch.h"

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr uint64_t kSegment = 4096;
constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE here

struct Options {
  std::string runtime = "auto";
  unsigned most_segments = 4096;
  uint64_t crc_mebibytes = 1024;
  int rounds = 11;
  std::string json;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

class Device {
 public:
  explicit Device(std::shared_ptr<const gpu::Runtime> runtime) : runtime_(std::move(runtime)) {}
  const gpu::HipTable& hip() const { return runtime_->hip(); }

  void expect(hip::Error e, const char* what) const {
    if (e == hip::kSuccess) return;
    fprintf(stderr, "bench_kernels: %s: %s\n", what, runtime_->error_name(e).c_str());
    exit(1);
  }
  using Memory = std::unique_ptr<char, hip::Error (*)(void*)>;
  Memory pinned(uint64_t size) const {
    void* p = nullptr;
    expect(hip().hipHostMalloc(&p, size, hip::kHostMallocPortable), "hipHostMalloc");
    return {static_cast<char*>(p), hip().hipHostFree};
  }
  Memory vram(uint64_t size) const {
    void* p = nullptr;
    expect(hip().hipMalloc(&p, size), "hipMalloc");
    return {static_cast<char*>(p), hip().hipFree};
  }

 private:
  std::shared_ptr<const gpu::Runtime> runtime_;
};

using Way = std::pair<const char*, std::function<void()>>;

// Median seconds of each way of doing something, from enqueueing to the end of the stream's work.
json seconds(const Device& device, const gpu::Stream& stream, const std::vector<Way>& ways, int rounds) {
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round <= rounds; round++)
    for (const auto& [name, enqueue] : ways) {
      const auto start = Clock::now();
      enqueue();
      device.expect(device.hip().hipStreamSynchronize(stream.handle()), name);
      const double t = std::chrono::duration<double>(Clock::now() - start).count();
      if (round > 0) times[name].push_back(t);  // the first is a warm-up
    }
  json medians;
  for (auto& [name, t] : times) medians[name] = median(t);
  return medians;
}

json bench_copy(const Device& device, const gpu::Stream& stream, const kernels::Kernels& loaded,
                unsigned count, bool to_device, int rounds) {
  const uint64_t size = count * kSegment, apart = 2 * kSegment;
  auto pinned = device.pinned(size), list = device.pinned(count * sizeof(kernels::Segment));
  auto vram = device.vram(count * apart);
  std::fill_n(pinned.get(), size, 'x');
  auto* segments = reinterpret_cast<kernels::Segment*>(list.get());
  auto host = [&](unsigned i) { return pinned.get() + i * kSegment; };
  auto there = [&](unsigned i) { return vram.get() + i * 2654435761u % count * apart; };  // in no order
  for (unsigned i = 0; i < count; i++)
    segments[i] = to_device ? kernels::Segment{host(i), there(i), kSegment}
                            : kernels::Segment{there(i), host(i), kSegment};
  const auto kind = to_device ? hip::kMemcpyHostToDevice : hip::kMemcpyDeviceToHost;
  auto memcpy_async = [&](char* inside, char* outside, uint64_t bytes) {
    device.expect(device.hip().hipMemcpyAsync(to_device ? inside : outside, to_device ? outside : inside,
                                              bytes, kind, stream.handle()),
                  "hipMemcpyAsync");
  };
  json row = seconds(device, stream,
                     {{"one_launch",
                       [&] {
                         device.expect(loaded.copy({segments, count}, stream.handle()), "launch");
                       }},
                      {"memcpy_each",
                       [&] {
                         for (unsigned i = 0; i < count; i++) memcpy_async(there(i), host(i), kSegment);
                       }},
                      {"one_memcpy", [&] { memcpy_async(vram.get(), pinned.get(), size); }}},
                     rounds);
  row["direction"] = to_device ? "scatter" : "gather";
  row["segments"] = count;
  row["segment_bytes"] = kSegment;
  const double launch = row["one_launch"], each = row["memcpy_each"], one = row["one_memcpy"];
  row["gbps"] = static_cast<double>(size) / launch / 1e9;
  row["speedup_over_memcpy_each"] = each / launch;
  row["fraction_of_one_memcpy"] = one / launch;
  printf(
      "%-7s %5u x 4 KiB: one launch %8.1f us (%5.2f GB/s), a hipMemcpyAsync each %8.1f us (x %.1f), one copy "
      "%7.1f us\n",
      to_device ? "scatter" : "gather", count, launch * 1e6, row["gbps"].get<double>(), each * 1e6,
      each / launch, one * 1e6);
  return row;
}

json bench_crc32c(const Device& device, const gpu::Stream& stream, const kernels::Kernels& loaded,
                  uint64_t size, int rounds) {
  auto vram = device.vram(size);
  device.expect(device.hip().hipMemset(vram.get(), 0x5a, size), "hipMemset");
  auto words = device.pinned(kernels::kCrc32cMostBlocks * sizeof(uint32_t));
  auto back = device.pinned(size);
  auto* remainders = reinterpret_cast<uint32_t*>(words.get());
  const auto plan = kernels::Crc32cPlan::of(reinterpret_cast<uint64_t>(vram.get()), size);
  json row =
      seconds(device, stream,
              {{"crc32c", [&] { device.expect(loaded.crc32c(plan, remainders, stream.handle()), "launch"); }},
               {"copy_back",
                [&] {
                  device.expect(device.hip().hipMemcpyAsync(back.get(), vram.get(), size,
                                                            hip::kMemcpyDeviceToHost, stream.handle()),
                                "hipMemcpyAsync");
                }}},
              rounds);
  const auto start = Clock::now();
  row["crc"] = kernels::crc32c_of(plan, remainders);
  row["combine"] = std::chrono::duration<double>(Clock::now() - start).count();
  row["bytes"] = size;
  const double crc = row["crc32c"], copy = row["copy_back"];
  row["gbps"] = static_cast<double>(size) / crc / 1e9;
  row["speedup_over_copy_back"] = copy / crc;
  printf("crc32c  %8.2f MiB: %8.1f us (%7.1f GB/s) and %.1f us on the host, a copy back %8.1f us (x %.1f)\n",
         static_cast<double>(size) / (1 << 20), crc * 1e6, row["gbps"].get<double>(),
         row["combine"].get<double>() * 1e6, copy * 1e6, copy / crc);
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Kernels against copies, on device 0.", "bench_kernels");
  app.add_option("--runtime", o.runtime, "auto, amd, or the path of a HIP runtime")->capture_default_str();
  app.add_option("--segments", o.most_segments, "most segments of a copy")
      ->capture_default_str()
      ->check(CLI::Range(64u, 1u << 20));
  app.add_option("--mib", o.crc_mebibytes, "largest range for CRC32C")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20));
  app.add_option("--rounds", o.rounds, "interleaved rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--json", o.json, "write the medians, in seconds, there");
  CLI11_PARSE(app, argc, argv);

  auto runtime = gpu::Runtime::load(o.runtime);
  if (!runtime) {
    fprintf(stderr, "bench_kernels: %s\n", runtime.error().text().c_str());
    return 1;
  }
  const auto image = (*runtime)->kind() == gpu::RuntimeKind::cuda ? kernels::ptx() : kernels::amdgpu_bundle();
  const Device device(*runtime);
  auto loaded = kernels::Kernels::load(kernels::Functions::from(device.hip()), image);
  if (!loaded) {
    fprintf(stderr, "bench_kernels: no kernels for %s: %s\n", (*runtime)->describe().c_str(),
            (*runtime)->error_name(loaded.error()).c_str());
    return kSkipped;
  }
  auto stream = gpu::Stream::create(*runtime);
  if (!stream) device.expect(stream.error(), "hipStreamCreateWithFlags");

  printf("%s\n", (*runtime)->describe().c_str());
  json results{{"runtime", (*runtime)->describe()}, {"rounds", o.rounds}};
  for (bool to_device : {true, false})
    for (unsigned count = 64; count <= o.most_segments; count *= 4)
      results["copy"].push_back(bench_copy(device, *stream, *loaded, count, to_device, o.rounds));
  for (uint64_t mebibytes = 1; mebibytes <= o.crc_mebibytes; mebibytes *= 4)
    results["crc32c"].push_back(bench_crc32c(device, *stream, *loaded, mebibytes << 20, o.rounds));
  if (!o.json.empty()) {
    std::ofstream file(o.json);
    file << results.dump(2) << "\n";
    if (!file.flush()) {
      fprintf(stderr, "bench_kernels: cannot write %s\n", o.json.c_str());
      return 1;
    }
  }
  return 0;
}
