#include "options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "engine/file_windows.h"
#include "posix/path.h"

namespace fs {
namespace {

using Setter = std::function<bool(Options&, const std::string&)>;

template <typename T>
bool parse_number(const std::string& text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_switch(const std::string& text, bool& out) {
  if (text == "on" || text == "1" || text == "yes" || text == "true" || text.empty()) return out = true, true;
  if (text == "off" || text == "0" || text == "no" || text == "false") return out = false, true;
  return false;
}

bool parse_mebibytes(const std::string& text, size_t& bytes, size_t least, size_t most) {
  size_t n = 0;
  if (!parse_number(text, n) || n < least || n > most) return false;
  bytes = n << 20;
  return true;
}

struct Definition {
  const char* name;
  const char* values;
  const char* help;
  Setter set;
};

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = {
      {"runtime", "auto|amd|cuda|software|PATH", "HIP runtime to load",
       [](Options& o, const std::string& v) {
         o.runtime = v;
         return v == "auto" || v == "amd" || v == "cuda" || v == "software" ||
                v.find('/') != std::string::npos;
       }},
      {"tag", "registered|direct|all",
       "which opens can be tagged: those of processes that hold a registered buffer (default); "
       "also those with O_DIRECT; every one",
       [](Options& o, const std::string& v) {
         if (v == "registered") return o.tag = TagPolicy::registered, true;
         if (v == "direct") return o.tag = TagPolicy::direct, true;
         if (v == "all") return o.tag = TagPolicy::all, true;
         return false;
       }},
      {"routes", "LIST", "routes that may be used, joined by '+': peer+pages+cached+staged",
       [](Options& o, std::string v) {
         std::replace(v.begin(), v.end(), '+', ',');
         auto set = engine::RouteSet::parse(v);
         if (set) o.engine.routes = *set;
         return set.has_value();
       }},
      {"passthrough", "on|off",
       "kernel passthrough for ordinary opens (default on, needs root and Linux 6.9)",
       [](Options& o, const std::string& v) { return parse_switch(v, o.passthrough); }},
      {"uring", "auto|on|off", "requests over io_uring (default auto: where fuse.enable_uring=Y, Linux 6.14)",
       [](Options& o, const std::string& v) {
         bool on = false;
         if (v != "auto" && !parse_switch(v, on)) return false;
         o.uring = v == "auto" ? Switch::automatic : on ? Switch::on : Switch::off;
         return true;
       }},
      {"cache", "auto|never|always|SECONDS",
       "how long the kernel may believe names and attributes (default auto: names until the source changes, "
       "if root can watch it; the rest for 1 second)",
       [](Options& o, const std::string& v) {
         o.cache = v == "auto"     ? CachePolicy::automatic
                   : v == "never"  ? CachePolicy::never
                   : v == "always" ? CachePolicy::always
                                   : CachePolicy::seconds;
         if (o.cache != CachePolicy::seconds) return true;
         return parse_number(v, o.cache_seconds) && o.cache_seconds >= 0 && o.cache_seconds <= 86400;
       }},
      {"locks", "local|forward",
       "whether locks taken through the mount and on SOURCE see each other (default local: they do not)",
       [](Options& o, const std::string& v) {
         o.forward_locks = v == "forward";
         return v == "local" || v == "forward";
       }},
      {"submounts", "on|off", "show what is mounted below SOURCE (default off)",
       [](Options& o, const std::string& v) { return parse_switch(v, o.submounts); }},
      {"hide_source", "on|off",
       "cover SOURCE while mounted: cp and mv from it to the mount would take one file for two",
       [](Options& o, const std::string& v) { return parse_switch(v, o.hide_source); }},
      {"fds", "N",
       "descriptors held for known files (default 16384); further files are known by their handles",
       [](Options& o, const std::string& v) { return parse_number(v, o.held_descriptors); }},
      {"threads", "N", "GPU requests moved at the same time (default: twice the CPUs, at least 4)",
       [](Options& o, const std::string& v) {
         return parse_number(v, o.engine_threads) && o.engine_threads >= 1 && o.engine_threads <= 1024;
       }},
      {"pool", "MIB", "cap of pinned staging memory (default 256)",
       [](Options& o, const std::string& v) { return parse_mebibytes(v, o.engine.pool_bytes, 1, 1 << 20); }},
      {"slot", "MIB", "size of one staging slot (default 4)",
       [](Options& o, const std::string& v) { return parse_mebibytes(v, o.engine.slot_bytes, 1, 1024); }},
      {"depth", "N", "file operations in flight for one request (default 16)",
       [](Options& o, const std::string& v) {
         return parse_number(v, o.engine.depth) && o.engine.depth >= 1 && o.engine.depth <= 256;
       }},
      {"copy_threads", "N", "threads that copy for one request (default: the CPUs, at most 12)",
       [](Options& o, const std::string& v) {
         return parse_number(v, o.engine.copy_threads) && o.engine.copy_threads >= 1 &&
                o.engine.copy_threads <= 256;
       }},
      {"data", "auto|once|keep",
       "GPU reads and the page cache (default auto: what is cached comes from it, the rest goes around it; "
       "once: "
       "and nothing is left there; keep: everything goes through it)",
       [](Options& o, const std::string& v) {
         auto use = engine::parse_cache_use(v);
         if (use) o.engine.cache_use = *use;
         return use.has_value();
       }},
      {"windows", "MIB",
       "cap of file data that stays mapped for the GPU (default an eighth of the memory; 0: none)",
       [](Options& o, const std::string& v) {
         size_t bytes = 0;
         if (v != "0" && !parse_mebibytes(v, bytes, engine::FileWindows::kWindow >> 20, 1 << 24))
           return false;
         o.engine.window_bytes = bytes;
         return true;
       }},
      {"io_uring", "on|off", "file I/O by io_uring or by threads (default on, threads where it is refused)",
       [](Options& o, const std::string& v) { return parse_switch(v, o.engine.io_uring); }},
      {"socket", "PATH|none", "socket through which clients hand over descriptors",
       [](Options& o, const std::string& v) {
         o.socket = v;
         return !v.empty() && v.size() < 108;
       }},
      {"log", "LEVEL", "trace, debug, info, warn, error or off (default info)",
       [](Options& o, const std::string& v) {
         constexpr std::array levels{"trace", "debug", "info", "warn", "error", "off"};
         o.log_level = v;
         return std::find(levels.begin(), levels.end(), v) != levels.end();
       }},
      {"log_file", "PATH", "log there instead of to standard error (foreground) or syslog",
       [](Options& o, const std::string& v) {
         o.log_file = v;
         return !v.empty();
       }},
  };
  return all;
}

// Taken by libfuse, or by security modules, as they are.
bool handed_on(const std::string& name) {
  constexpr std::array known{"allow_other", "fsname",      "context", "fscontext",
                             "defcontext",  "rootcontext", "max_read"};
  return is_kernel_option(name) || std::find(known.begin(), known.end(), name) != known.end();
}

// Meant for mount(8), systemd or the reader of fstab; or said by the kernel of a mount that is there.
bool ignored(const std::string& name) {
  constexpr std::array known{"defaults",
                             "auto",
                             "noauto",
                             "user",
                             "nouser",
                             "users",
                             "owner",
                             "group",
                             "nofail",
                             "_netdev",
                             "lazytime",
                             "nolazytime",
                             "silent",
                             "loud",
                             "iversion",
                             "mand",
                             "nomand",
                             "user_id",
                             "noiversion",
                             "rootmode",
                             "group_id",
                             "subtype",
                             "default_permissions"};
  return name.rfind("x-", 0) == 0 || name.rfind("X-", 0) == 0 || name.rfind("comment", 0) == 0 ||
         std::find(known.begin(), known.end(), name) != known.end();
}

// Those options of the kernel that also concern the source as we see it. The last one counts.
bool set_view_option(Options& options, const std::string& name) {
  if (name == "ro" || name == "rw")
    options.read_only = name == "ro";
  else if (name == "noatime")
    options.access_times = AccessTimes::never;
  else if (name == "relatime" || name == "atime" || name == "nostrictatime")
    options.access_times = AccessTimes::relative;
  else if (name == "strictatime" || name == "norelatime")
    options.access_times = AccessTimes::always;
  else if (name == "nodiratime" || name == "diratime")
    options.directory_access_times = name == "diratime";
  else if (name == "nosymfollow" || name == "symfollow")
    options.follow_links = name == "symfollow";
  else
    return false;
  return true;
}

}  // namespace

bool is_kernel_option(const std::string& name) {
  constexpr std::array known{
      "ro",         "rw",       "nosuid", "suid",     "nodev",      "dev",         "noexec",
      "exec",       "noatime",  "atime",  "relatime", "norelatime", "strictatime", "nostrictatime",
      "nodiratime", "diratime", "sync",   "async",    "dirsync",    "nosymfollow", "symfollow"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

posix::Result<void> apply_mount_options(Options& options, const std::string& list) {
  for (size_t start = 0; start < list.size();) {
    size_t end = std::min(list.find(',', start), list.size());
    std::string item = list.substr(start, end - start);
    start = end + 1;
    if (item.empty()) continue;
    size_t equals = item.find('=');
    std::string name = item.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    auto definition = std::find_if(definitions().begin(), definitions().end(),
                                   [&](const Definition& d) { return d.name == name; });
    if (set_view_option(options, name)) continue;
    if (definition != definitions().end()) {
      if (!definition->set(options, value))
        return posix::failure(EINVAL,
                              "mount option " + item + " (expected " + name + "=" + definition->values + ")");
    } else if (handed_on(name)) {
      options.fuse_options.push_back(item);
    } else if (!ignored(name)) {
      return posix::failure(EINVAL, "unknown mount option " + item);
    }
  }
  if (options.engine.pool_bytes < options.engine.slot_bytes)
    return posix::failure(EINVAL, "mount option pool is smaller than one slot");
  return {};
}

CacheTimes cache_times(const Options& options, bool watched) {
  constexpr double kMinute = 60, kDay = 86400;
  switch (options.cache) {
    case CachePolicy::never:
      return {0, 0, 0};
    case CachePolicy::always:
      return {kDay, kDay, kDay};
    case CachePolicy::seconds:
      return {options.cache_seconds, options.cache_seconds, options.cache_seconds};
    case CachePolicy::automatic:
      break;
  }
  return watched ? CacheTimes{kMinute, kMinute, 1} : CacheTimes{1, 1, 1};
}

posix::Result<void> check_directories(const Options& options) {
  const bool nested = posix::lies_under(options.mountpoint, options.source) ||
                      posix::lies_under(options.source, options.mountpoint);
  if (options.hide_source && nested)
    return posix::failure(EINVAL, "mount option hide_source: " + options.source + " and " +
                                      options.mountpoint + " lie in each other");
  return {};
}

std::string mount_options_help() {
  std::string text;
  for (const auto& d : definitions()) {
    std::string left = std::string("  ") + d.name + "=" + d.values;
    text += left + std::string(left.size() < 34 ? 34 - left.size() : 1, ' ') + d.help + "\n";
  }
  return text + "  ro, noatime, allow_other, ...    as for any file system\n";
}

}  // namespace fs
