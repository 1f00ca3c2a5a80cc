// Measures workloads given as JSON, one per argument or per line of standard input, and answers each with a line of
// JSON. The driver is tests/bench/engine.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "measure.h"

namespace {

using nlohmann::json;

struct Options {
  std::vector<std::string> workloads;
  std::string runtime = "auto";
  std::string library;
  std::string prefix = bench::FileApi::kOurs;
  int device = 0;
};

// The library of the build or the bundle that this program is in; otherwise the system's.
std::string default_library() {
  std::error_code ignored;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto beside = here / "../lib/libhipfile.so.0";
  return std::filesystem::exists(beside, ignored) ? beside.string() : "libhipfile.so.0";
}

void answer(const json& object) { std::cout << object.dump() << std::endl; }

json failure(const posix::Error& error) { return {{"error", error.text()}, {"errno", error.code}}; }

json introduction(const bench::Session& session) {
  const gpu::Runtime& runtime = *session.runtime();
  constexpr const char* kKinds[] = {"amd", "software", "cuda"};
  json about = {{"runtime", runtime.describe()},
                {"kind", kKinds[static_cast<int>(runtime.kind())]},
                {"device_memory_is_pages", runtime.device_memory_is_pages()},
                {"cpus", std::thread::hardware_concurrency()}};
  if (!session.api()) about["library_error"] = session.api().error().text();
  return about;
}

json outcome(const std::string& line, bench::Session& session) {
  auto workload = bench::parse_workload(line);
  if (!workload) return failure(workload.error());
  auto m = bench::measure(*workload, session);
  if (!m) return failure(m.error());
  return {{"seconds", m->seconds},
          {"bytes", m->bytes},
          {"operations", m->operations},
          {"cpu_seconds", m->cpu_seconds},
          {"server_cpu_seconds", m->server_cpu_seconds},
          {"p50_us", m->p50_us},
          {"p99_us", m->p99_us},
          {"resident", m->resident},
          {"verified_bytes", m->verified_bytes},
          {"route", m->route.name},
          {"reason", m->route.reason}};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  o.library = default_library();
  CLI::App app("Moves file data to device memory and back, and says what it took.", "bench_engine");
  app.add_option("WORKLOAD", o.workloads, "JSON objects; none: lines of standard input");
  app.add_option("--runtime", o.runtime, "HIP runtime: auto, amd, software or a path")->capture_default_str();
  app.add_option("--device", o.device, "HIP device")->capture_default_str();
  app.add_option("--library", o.library, "hipFile library to measure")->capture_default_str();
  app.add_option("--prefix", o.prefix, "of its functions: hipFile or cuFile")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  auto runtime = gpu::Runtime::load(o.runtime);
  if (!runtime) {
    answer(failure(runtime.error()));
    return 1;
  }
  if (hip::Error e = (*runtime)->hip().hipSetDevice(o.device); e != hip::kSuccess) {
    answer(failure(bench::hip_failure(**runtime, "hipSetDevice", e)));
    return 1;
  }
  bench::Session session(*runtime, o.device, bench::FileApi::load(o.library, o.prefix));
  answer(introduction(session));
  for (const std::string& workload : o.workloads) answer(outcome(workload, session));
  if (!o.workloads.empty()) return 0;
  for (std::string line; std::getline(std::cin, line);) answer(outcome(line, session));
  return 0;
}
