// hipfile-fuse SOURCE MOUNTPOINT: the daemon's command line.
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "background.h"
#include "filesystem.h"
#include "mount_helper.h"

namespace {

constexpr char kAbout[] =
    "Mounts SOURCE, a directory of an ext4 or xfs file system, on MOUNTPOINT. Programs use it as they use "
    "SOURCE; "
    "through ioctls (hipfile_fuse.h) file data goes to and from GPU memory.";

// Open files and many nodes hold descriptors, so the limit is raised as far as it goes.
void raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

posix::Result<void> start_log(const fs::Options& options) try {
  std::shared_ptr<spdlog::logger> logger;
  if (!options.log_file.empty())
    logger = spdlog::basic_logger_mt("hipfile-fuse", options.log_file);
  else if (options.foreground)
    logger = spdlog::stderr_color_mt("hipfile-fuse");
  else
    logger = spdlog::syslog_logger_mt("syslog", "hipfile-fuse", LOG_PID, LOG_DAEMON);
  logger->set_level(spdlog::level::from_str(options.log_level == "warn" ? "warning" : options.log_level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
  return {};
} catch (const spdlog::spdlog_ex& e) {
  return posix::failure(EIO, std::string("start log: ") + e.what());
}

posix::Result<void> check_mountpoint(const std::string& path) {
  struct stat st;
  int status = stat(path.c_str(), &st);
  // What a daemon left that died: nobody can use it, and it stands in the way.
  if (status < 0 && errno == ENOTCONN && umount2(path.c_str(), MNT_DETACH) == 0)
    status = stat(path.c_str(), &st);
  if (status < 0) return posix::last_failure("mount point " + path);
  if (!S_ISDIR(st.st_mode)) return posix::failure(ENOTDIR, "mount point " + path);
  return {};
}

posix::Result<void> run(fs::Options options) {
  if (auto checked = fs::check_directories(options); !checked) return checked;
  auto source = fs::open_source(options);
  if (!source) return tl::unexpected(source.error());
  if (auto checked = check_mountpoint(options.mountpoint); !checked) return checked;
  std::optional<fs::Background> background;
  if (!options.foreground) {
    auto started = fs::Background::start();
    if (!started) return tl::unexpected(started.error());
    background.emplace(std::move(*started));
  }
  if (auto started = start_log(options); !started) return started;
  raise_descriptor_limit();
  fs::block_ending_signals();
  auto runtime = gpu::Runtime::load(options.runtime);
  if (!runtime && options.runtime != "auto") return tl::unexpected(runtime.error());
  if (runtime)
    spdlog::info("HIP runtime: {}", (*runtime)->describe());
  else
    spdlog::warn("{}: only memory by descriptor can be registered", runtime.error().text());
  fs::Filesystem filesystem(options, std::move(*source), runtime ? *runtime : nullptr);
  return filesystem.serve([&background] {
    if (background) background->ready();
  });
}

// A helper's call becomes the daemon's command line. Done already: the exit status.
std::optional<int> act_as_helper(std::vector<std::string>& arguments) {
  auto call = fs::parse_mount_call(arguments);
  if (call.fake) return 0;
  if (call.remount) {
    // By fsconfig(2) the kernel refuses options of FUSE, such as user_id=, even where they stay as they are.
    setenv("LIBMOUNT_FORCE_MOUNT2", "always", 1);
    execlp("mount", "mount", "-i", "-o", call.options.c_str(), call.directory.c_str(), nullptr);
    return 1;
  }
  arguments = std::move(call.arguments);
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  fs::open_standard_descriptors();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (fs::is_mount_helper(argv[0]))
    if (auto status = act_as_helper(arguments)) return *status;
  fs::Options options;
  std::vector<std::string> lists;
  CLI::App app(kAbout, "hipfile-fuse");
  app.set_version_flag("--version,-V",
                       "hipfile-fuse " HIPFILE_FUSE_VERSION ", libfuse " + std::string(fuse_pkgversion()));
  app.add_option("SOURCE", options.source, "directory to show")->required();
  app.add_option("MOUNTPOINT", options.mountpoint, "where to show it; may be SOURCE itself")->required();
  app.add_option("-o", lists, "mount options, joined by commas")
      ->type_name("OPTIONS")
      ->allow_extra_args(false);
  app.add_flag("-f", options.foreground, "stay in the foreground");
  app.add_flag("-d", options.debug_fuse, "print every FUSE request (stays in the foreground)");
  app.footer("Mount options:\n" + fs::mount_options_help() +
             "\nUnmount with umount MOUNTPOINT, fusermount3 -u MOUNTPOINT, or SIGTERM.");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  options.foreground |= options.debug_fuse;
  for (const auto& list : lists) {
    auto applied = fs::apply_mount_options(options, list);
    if (!applied) {
      std::cerr << "hipfile-fuse: " << applied.error().text() << "\n";
      return 2;
    }
  }
  // Relative paths must survive the change of directory that a daemon makes.
  for (std::string* path : {&options.source, &options.mountpoint}) {
    std::error_code ignored;
    auto full = std::filesystem::canonical(*path, ignored);
    if (full.empty()) full = std::filesystem::absolute(*path, ignored);  // a dead mount has no canonical one
    if (!full.empty()) *path = full.string();
  }
  auto status = run(options);
  if (status) return 0;
  std::cerr << "hipfile-fuse: " << status.error().text() << "\n";
  spdlog::error("{}", status.error().text());
  return 1;
}
