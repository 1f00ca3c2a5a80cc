// ais-check: can data go straight from storage into GPU memory here, and if not, what would have to change? Options,
// table and exit codes are those of ROCm's tool of this name; it needs no root, and takes single files, too.
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "check/report.h"

namespace {

constexpr int kAllSupported = 0, kNotAllSupported = 1, kWrongUse = 2;

std::string release() {
  utsname names;
  if (uname(&names) < 0) return "";
  return std::string(names.sysname) + " " + names.release + " " + names.version + " " + names.machine;
}

int report_files(const std::vector<std::string>& paths, const check::SystemCheck& system, bool quiet,
                 bool as_json, bool details) {
  std::vector<check::FileCheck> files;
  bool all = true;
  for (const auto& path : paths) {
    files.push_back(check::check_file(path, system));
    auto& file = files.back();
    if (details) file.dmabuf = check::try_dmabuf(path, *check::make_dmabuf_calls());
    all = all && file.ok();
    if (!file.problem.empty()) fprintf(stderr, "ais-check: %s: %s\n", path.c_str(), file.problem.c_str());
    if (!quiet && !as_json && file.problem.empty())
      printf("%s%s", files.size() > 1 ? "\n" : "", check::text_report(file).c_str());
  }
  if (as_json && !quiet) printf("%s", check::json_report(files).c_str());
  return all ? kAllSupported : kNotAllSupported;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  bool quiet = false, verbose = false, as_json = false;
  CLI::App app(
      "ais-check [-q | -v] [--json] [FILE...]\nWhether data can go straight from storage into GPU memory "
      "(AIS). For the "
      "machine: 0 if kernel, HIP runtime, driver and\nat least one volume can do it; for files: 0 if it "
      "would be done for "
      "each of them.",
      "ais-check");
  app.add_option("FILE", paths, "judge these files or directories instead of the machine");
  auto* quiet_flag = app.add_flag("-q,--quiet", quiet, "only the exit status");
  app.add_flag("-v,--verbose", verbose,
               "with the HIP libraries that were looked at, and what io_uring can do")
      ->excludes(quiet_flag);
  app.add_flag("--json", as_json, "as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kAllSupported : kWrongUse;
  }
  const bool details = verbose || as_json;
  auto system = check::check_system("", check::examine_hip_libraries(check::find_hip_libraries()));
  if (system.has_virtual_function())
    fprintf(stderr, "ais-check: a GPU is an SR-IOV virtual function; AIS does not work with these\n");
  if (!paths.empty()) return report_files(paths, system, quiet, as_json, details);
  if (details) system.dmabuf = check::probe_dmabuf(*check::make_dmabuf_calls());
  if (!quiet)
    printf("%s", as_json ? check::json_report(system, release()).c_str()
                         : check::text_report(system, release(), verbose).c_str());
  return system.all_ok() ? kAllSupported : kNotAllSupported;
}
