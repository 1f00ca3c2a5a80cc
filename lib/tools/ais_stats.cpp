// ais-stats: the counters of a program that uses libhipfile. Runs a program and reports at its end, or looks at a
// running process; without root on one's own processes.
#include <dirent.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "posix/mapping.h"
#include "stats.h"

namespace {

using nlohmann::json;

/// The counters of a process, mapped; they stay readable after its end.
class Counters {
 public:
  /// The memfd that the library keeps, found by its name. Nothing as long as the process has none.
  static std::optional<Counters> find(pid_t pid) {
    const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
    std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
    while (dirent* e = entries ? readdir(entries.get()) : nullptr) {
      const std::string path = directory + "/" + e->d_name;
      char target[PATH_MAX] = {};
      if (readlink(path.c_str(), target, sizeof target - 1) < 0) continue;
      if (std::string(target).rfind(std::string("/memfd:") + api::kStatsName, 0) != 0) continue;
      posix::Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (!fd) continue;
      auto mapping = posix::Mapping::shared(fd.get(), sizeof(api::StatsPage));
      if (!mapping) continue;
      Counters counters(std::move(*mapping));
      if (counters.used()) return counters;
    }
    return std::nullopt;
  }
  /// New ones, for a program that inherits `memory`.
  static std::optional<Counters> make(const posix::Fd& memory) {
    auto mapping = posix::Mapping::shared(memory.get(), sizeof(api::StatsPage));
    if (!mapping) return std::nullopt;
    return Counters(std::move(*mapping));
  }
  bool used() const { return page().version != 0; }
  const api::StatsPage& page() const { return *reinterpret_cast<const api::StatsPage*>(mapping_.data()); }

 private:
  explicit Counters(posix::Mapping mapping) : mapping_(std::move(mapping)) {}
  posix::Mapping mapping_;
};

constexpr const char* kDirections[] = {"Read", "Write"};

std::string bucket_label(size_t i) {
  if (i == 0) return "0-4";
  std::string low = std::to_string(size_t{4} << (i - 1));
  return i + 1 == api::kSizeBuckets ? low + "-..." : low + "-" + std::to_string(size_t{4} << i);
}

json to_json(const api::StatsPage& page) {
  json out;
  out["version"] = page.version.load();
  out["level"] = page.level.load();
  out["file_registrations"] = page.file_register.ok.load();
  out["buffer_registrations"] = page.buffer_register.ok.load();
  out["async_submitted"] = page.async_submitted.load();
  out["batch_submitted"] = page.batch_enqueued.ok.load();
  out["failovers"] = page.failovers.load();
  for (uint32_t r = 0; r < api::kReasons; r++)
    if (uint64_t n = page.reasons[r]) out["reasons"][engine::text(static_cast<engine::Reason>(r))] = n;
  for (size_t g = 0; g <= api::kStatsGpus; g++)
    for (uint32_t route = 0; route < engine::kRoutes; route++)
      for (int d = 0; d < 2; d++) {
        const auto& c = page.gpus[g].transfers[route][d];
        if (!c.ops && !c.errors && !c.bytes) continue;
        json t{{"gpu", g < api::kStatsGpus ? json(g) : json("host")},
               {"route", engine::name(static_cast<engine::Route>(route))},
               {"direction", kDirections[d]},
               {"operations", c.ops.load()},
               {"bytes", c.bytes.load()},
               {"microseconds", c.microseconds.load()},
               {"errors", c.errors.load()},
               {"unaligned", c.unaligned.load()}};
        for (size_t b = 0; b < api::kSizeBuckets; b++)
          if (uint64_t n = c.sizes[b]) t["sizes_kib"][bucket_label(b)] = n;
        out["transfers"].push_back(t);
      }
  return out;
}

void print_text(const api::StatsPage& page) {
  auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  printf("AIS-STATS Version: %llu\nHipFile Stats Level: %llu\n", number(page.version),
         number(page.level.load()));
  printf("File Handle Registrations: %llu\nBuffer Registrations: %llu\n", number(page.file_register.ok),
         number(page.buffer_register.ok));
  printf("Asynchronous Operations: %llu\nBatch Operations: %llu\nFailovers: %llu\n",
         number(page.async_submitted), number(page.batch_enqueued.ok), number(page.failovers));
  for (size_t g = 0; g <= api::kStatsGpus; g++) {
    bool named = false;
    for (uint32_t route = 0; route < engine::kRoutes; route++)
      for (int d = 0; d < 2; d++) {
        const auto& c = page.gpus[g].transfers[route][d];
        if (!c.ops && !c.errors && !c.bytes) continue;
        if (!named) printf(g < api::kStatsGpus ? "GPU %zu:\n" : "Host memory:\n", g);
        named = true;
        const double seconds = static_cast<double>(c.microseconds) / 1e6;
        printf("  %s %s: %llu operations, %llu B, %.3f GiB/s, %.1f us, %llu errors, %llu unaligned\n",
               engine::name(static_cast<engine::Route>(route)), kDirections[d], number(c.ops),
               number(c.bytes), seconds > 0 ? static_cast<double>(c.bytes) / seconds / (1 << 30) : 0.0,
               c.ops ? static_cast<double>(c.microseconds) / static_cast<double>(c.ops) : 0.0,
               number(c.errors), number(c.unaligned));
        for (size_t b = 0; b < api::kSizeBuckets; b++)
          if (uint64_t n = c.sizes[b]) printf("    %13s KiB: %llu\n", bucket_label(b).c_str(), number(n));
      }
  }
  bool headed = false;
  for (uint32_t r = 1; r < api::kReasons; r++) {
    uint64_t n = page.reasons[r];
    if (!n) continue;
    if (!headed) printf("Why not the best route:\n");
    headed = true;
    printf("  %llu: %s\n", number(n), engine::text(static_cast<engine::Reason>(r)));
  }
}

void report(const api::StatsPage& page, bool as_json) {
  if (as_json)
    printf("%s\n", to_json(page).dump(2).c_str());
  else
    print_text(page);
  fflush(stdout);
}

// Looks for the counters of a process until it ends, then waits for its end. Both at once, as it may never have any.
std::optional<Counters> follow(pid_t pid) {
  posix::Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::optional<Counters> counters;
  for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 100)) {
    if (!counters) counters = Counters::find(pid);
    pollfd p{process.get(), POLLIN, 0};
    if (!process || poll(&p, 1, counters ? -1 : pause_ms) > 0) return counters;
  }
}

int run_program(const std::vector<std::string>& command, bool as_json) {
  posix::Fd memory = api::make_stats_memory();
  auto inherited = memory ? Counters::make(memory) : std::nullopt;
  pid_t child = fork();
  if (child < 0) {
    perror("ais-stats: fork");
    return 1;
  }
  if (child == 0) {
    if (memory && fcntl(memory.get(), F_SETFD, 0) == 0)
      setenv(api::kStatsDescriptor, std::to_string(memory.get()).c_str(), 1);
    std::vector<char*> arguments;
    for (const auto& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    fprintf(stderr, "ais-stats: %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  auto counters = follow(child);  // in case that the program closes what it inherits
  int status = 0;
  waitpid(child, &status, 0);
  if (inherited && inherited->used()) counters = std::move(inherited);
  if (!counters) {
    fprintf(stderr, "ais-stats: %s did not use libhipfile\n", command[0].c_str());
    return 1;
  }
  report(counters->page(), as_json);
  return 0;
}

int attach(pid_t pid, bool immediately, bool as_json) {
  if (kill(pid, 0) < 0 && errno == ESRCH) {
    fprintf(stderr, "ais-stats: there is no process %d\n", pid);
    return 1;
  }
  auto counters = immediately ? Counters::find(pid) : follow(pid);
  if (!counters) {
    fprintf(stderr, "ais-stats: process %d does not use libhipfile, or is somebody else's\n", pid);
    return 1;
  }
  report(counters->page(), as_json);
  return 0;
}

// How many arguments come before the program's name, behind which all are the program's.
int own_arguments(int argc, char** argv) {
  int i = 1;
  for (; i < argc; i++) {
    const std::string_view a = argv[i];
    if (a == "--" || a.empty() || a[0] != '-') break;
    if (a == "-p" || a == "--pid") i++;
  }
  return std::min(i, argc);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> command;
  pid_t pid = 0;
  bool immediately = false, as_json = false;
  CLI::App app(
      "ais-stats [--json] PROGRAM [ARGUMENT...]\nais-stats [--json] -p PID [-i]\nCounters of libhipfile.",
      "ais-stats");
  auto* pid_option = app.add_option("-p,--pid", pid, "look at a running process, and report at its end")
                         ->check(CLI::PositiveNumber);
  app.add_flag("-i,--immediate", immediately, "report now instead of at the end")->needs(pid_option);
  app.add_flag("--json", as_json, "as JSON");
  const int own = own_arguments(argc, argv);
  int first = own;
  if (first < argc && std::string_view(argv[first]) == "--") first++;
  command.assign(argv + first, argv + argc);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& e) {
    int status = app.exit(e);
    return status == 0 ? 0 : 1;
  }
  if (pid && !command.empty()) {
    fprintf(stderr, "ais-stats: either a process or a program\n");
    return 1;
  }
  if (pid) return attach(pid, immediately, as_json);
  if (command.empty()) {
    fprintf(stderr, "%s", app.help().c_str());
    return 1;
  }
  return run_program(command, as_json);
}
