#include "parameters.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/file_windows.h"

namespace api {
namespace {

// Each kind in the order of its enumeration.
struct SizeParameter {
  const char* name;
  size_t value;  // by default
  size_t least, most, multiple;
};
constexpr size_t kAny = SIZE_MAX >> 10;
constexpr SizeParameter kSizes[kSizeParameters] = {{"profile_stats", 1, 0, 3, 1},
                                                   {"max_io_queue_depth", 16, 1, 256, 1},
                                                   {"max_io_threads", 0, 0, 1024, 1},
                                                   {"min_io_threshold_size_kb", 256, 0, kAny, 1},
                                                   {"max_request_parallelism", 4, 0, kAny, 1},
                                                   {"max_direct_io_size_kb", 4096, 4, 1 << 20, 4},
                                                   {"max_device_cache_size_kb", 256 * 1024, 4, kAny, 1},
                                                   {"per_buffer_cache_size_kb", 4096, 4, kAny, 1},
                                                   {"max_device_pinned_mem_size_kb", 256 * 1024, 4, kAny, 1},
                                                   {"io_batchsize", 128, 1, 128, 1},
                                                   {"poll_threshold_size_kb", 4, 0, kAny, 1},
                                                   {"batch_io_timeout_ms", 0, 0, kAny, 1}};
struct BoolParameter {
  const char* name;
  bool value;
};
constexpr BoolParameter kBools[kBoolParameters] = {{"use_poll_mode", false},
                                                   {"allow_compat_mode", true},
                                                   {"force_compat_mode", false},
                                                   {"fs_misc_api_check_aggressive", false},
                                                   {"parallel_io", true},
                                                   {"profile_nvtx", false},
                                                   {"allow_system_memory", true},
                                                   {"use_pcip2pdma", false},
                                                   {"prefer_io_uring", true},
                                                   {"force_odirect_mode", false},
                                                   {"skip_topology_detection", false},
                                                   {"stream_memops_bypass", false}};
struct StringParameter {
  const char* name;
};
constexpr StringParameter kStrings[kStringParameters] = {{"logging_level"}, {"logfile_path"}, {"log_dir"}};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<size_t> parse_size(const std::string& text) {
  size_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return SIZE_MAX;
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename Parameter, size_t N>
std::optional<size_t> index_of(const Parameter (&parameters)[N], std::string_view name) {
  for (size_t i = 0; i < N; i++)
    if (name == parameters[i].name) return i;
  return std::nullopt;
}

// Numbers that hipFileSet* does not know; false if out of bounds.
bool set_number(Settings& settings, std::string_view name, size_t value) {
  constexpr size_t kMostThreads = 256, kMostWindowsMb = 1 << 24;
  if (name == "copy_threads") {
    if (value < 1 || value > kMostThreads) return false;
    settings.copy_threads = static_cast<unsigned>(value);
    return true;
  }
  if (value > kMostWindowsMb || (value > 0 && value < engine::FileWindows::kWindow >> 20)) return false;
  settings.window_bytes = value << 20;
  return true;
}

void apply_mounts(Settings& settings, const toml::node& node, Warnings& warnings) {
  const toml::array* rules = node.as_array();
  if (!rules) return warnings.push_back("mount: expected [[mount]] tables");
  for (const auto& rule : *rules) {
    const toml::table* table = rule.as_table();
    auto path = table ? (*table)["path"].value<std::string>() : std::nullopt;
    auto routes = table ? (*table)["routes"].value<std::string>() : std::nullopt;
    auto set = routes ? engine::RouteSet::parse(*routes) : std::nullopt;
    if (path && set)
      settings.mounts.push_back({*path, *set});
    else
      warnings.push_back("mount: a rule needs path = \"...\" and routes = \"peer,pages,cached,staged\"");
  }
}

}  // namespace

Settings::Settings() {
  for (size_t i = 0; i < kSizeParameters; i++) sizes[i] = kSizes[i].value;
  for (size_t i = 0; i < kBoolParameters; i++) bools[i] = kBools[i].value;
  strings[hipFileParamLoggingLevel] = "warn";
}

engine::Config Settings::engine_config() const {
  engine::Config config;
  config.routes = routes;
  if (flag(hipFileParamForceCompatMode)) config.routes.remove(engine::Route::peer);
  if (!flag(hipFileParamPropertiesAllowCompatMode) && !flag(hipFileParamForceCompatMode)) {
    config.routes.remove(engine::Route::staged);
    config.routes.remove(engine::Route::cached);
  }
  config.slot_bytes = size(hipFileParamPropertiesMaxDirectIOSizeKB) << 10;
  config.pool_bytes = std::min(size(hipFileParamPropertiesMaxDevicePinnedMemSizeKB),
                               size(hipFileParamPropertiesMaxDeviceCacheSizeKB))
                      << 10;
  config.depth =
      static_cast<unsigned>(std::clamp<size_t>(size(hipFileParamExecutionMaxIOQueueDepth), 1, 256));
  config.io_uring = flag(hipFileParamPreferIOUring);
  config.peer_on_any_file_system = unsupported_file_systems;
  config.cache_use = data;
  config.copy_threads = copy_threads;
  config.window_bytes = window_bytes;
  return config;
}

std::optional<bool> parse_bool(const std::string& text) {
  const std::string t = lower(text);
  if (t == "1" || t == "true" || t == "yes" || t == "on") return true;
  if (t == "0" || t == "false" || t == "no" || t == "off") return false;
  return std::nullopt;
}

posix::Result<void> apply_file(Settings& settings, const std::string& text, Warnings& warnings) try {
  const toml::table table = toml::parse(text);
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (auto i = index_of(kSizes, name)) {
      auto value = node.value<int64_t>();
      auto parameter = static_cast<hipFileSizeTConfigParameter_t>(*i);
      if (value && *value >= 0 && valid_size(parameter, static_cast<size_t>(*value)))
        settings.sizes[*i] = static_cast<size_t>(*value);
      else
        warnings.push_back(name + ": not a valid number");
    } else if (auto b = index_of(kBools, name)) {
      auto value = node.value<bool>();
      if (value)
        settings.bools[*b] = *value;
      else
        warnings.push_back(name + ": expected true or false");
    } else if (auto s = index_of(kStrings, name)) {
      auto value = node.value<std::string>();
      if (value && valid_string(static_cast<hipFileStringConfigParameter_t>(*s), *value))
        settings.strings[*s] = *value;
      else
        warnings.push_back(name + ": not a valid text");
    } else if (name == "unsupported_file_systems") {
      settings.unsupported_file_systems = node.value<bool>().value_or(settings.unsupported_file_systems);
    } else if (name == "data") {
      auto use = engine::parse_cache_use(node.value<std::string>().value_or(""));
      if (use)
        settings.data = *use;
      else
        warnings.push_back("data: expected auto, once or keep");
    } else if (name == "copy_threads" || name == "windows_mb") {
      auto value = node.value<int64_t>();
      if (!value || !set_number(settings, name, static_cast<size_t>(*value)))
        warnings.push_back(name + ": not a valid number");
    } else if (name == "routes") {
      auto value = node.value<std::string>();
      auto set = value ? engine::RouteSet::parse(*value) : std::nullopt;
      if (set)
        settings.routes = *set;
      else
        warnings.push_back("routes: expected names of routes, joined by commas");
    } else if (name == "mount") {
      apply_mounts(settings, node, warnings);
    } else {
      warnings.push_back(name + ": unknown setting");
    }
  }
  return {};
} catch (const toml::parse_error& e) {
  return posix::failure(
      EINVAL, "line " + std::to_string(e.source().begin.line) + ": " + std::string(e.description()));
}

void apply_environment(Settings& settings, const char* (*get)(const char*), Warnings& warnings) {
  auto flag = [&](const char* name, auto set) {
    const char* text = get(name);
    if (!text) return;
    if (auto value = parse_bool(text))
      set(*value);
    else
      warnings.push_back(std::string(name) + "=" + text + ": expected true or false; ignored");
  };
  auto number = [&](const char* name, auto set) {
    const char* text = get(name);
    if (!text) return;
    if (auto value = parse_size(text))
      set(*value);
    else
      warnings.push_back(std::string(name) + "=" + text + ": expected a number; ignored");
  };
  flag("HIPFILE_ALLOW_COMPAT_MODE",
       [&](bool v) { settings.bools[hipFileParamPropertiesAllowCompatMode] = v; });
  flag("HIPFILE_FORCE_COMPAT_MODE", [&](bool v) { settings.bools[hipFileParamForceCompatMode] = v; });
  if (const char* text = get("HIPFILE_DATA")) {
    if (auto use = engine::parse_cache_use(text))
      settings.data = *use;
    else
      warnings.push_back(std::string("HIPFILE_DATA=") + text + ": expected auto, once or keep; ignored");
  }
  auto bounded = [&](const char* name, const char* setting) {
    number(name, [&](size_t v) {
      if (!set_number(settings, setting, v))
        warnings.push_back(std::string(name) + ": not a valid number; ignored");
    });
  };
  bounded("HIPFILE_COPY_THREADS", "copy_threads");
  bounded("HIPFILE_WINDOWS_MB", "windows_mb");
  flag("HIPFILE_UNSUPPORTED_FILE_SYSTEMS", [&](bool v) { settings.unsupported_file_systems = v; });
  number("HIPFILE_STATS_LEVEL",
         [&](size_t v) { settings.sizes[hipFileParamProfileStats] = std::min<size_t>(v, 3); });
  // The pinned memory of asynchronous operations is the engine's; its slot is what this variable sized
  // upstream.
  number("HIPFILE_ASYNC_BUFFER_SIZE", [&](size_t v) {
    size_t kib = std::min<size_t>(v >> 10, 1 << 20) / 4 * 4;
    if (kib) settings.sizes[hipFileParamPropertiesMaxDirectIOSizeKB] = kib;
  });
}

bool valid_size(hipFileSizeTConfigParameter_t parameter, size_t value) {
  const SizeParameter& p = kSizes[static_cast<size_t>(parameter)];
  return value >= p.least && value <= p.most && value % p.multiple == 0;
}

std::optional<spdlog::level::level_enum> parse_log_level(const std::string& text) {
  const std::string level = lower(text);
  if (level == "trace") return spdlog::level::trace;
  if (level == "debug") return spdlog::level::debug;
  if (level == "info" || level == "notice") return spdlog::level::info;
  if (level == "warn") return spdlog::level::warn;
  if (level == "error") return spdlog::level::err;
  if (level == "off") return spdlog::level::off;
  return std::nullopt;
}

bool valid_string(hipFileStringConfigParameter_t parameter, const std::string& value) {
  if (parameter == hipFileParamLogDir) {
    struct stat st;
    return stat(value.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  }
  if (parameter == hipFileParamLoggingLevel) return parse_log_level(value).has_value();
  return !value.empty();
}

Parameters::Parameters() {
  Warnings warnings;
  if (const char* path = std::getenv("HIPFILE_CONFIG")) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in)
      warnings.push_back(std::string(path) + ": cannot be read");
    else if (auto applied = apply_file(defaults_, text.str(), warnings); !applied)
      warnings.push_back(std::string(path) + ", " + applied.error().context);
  }
  apply_environment(
      defaults_, [](const char* name) -> const char* { return std::getenv(name); }, warnings);
  for (const auto& warning : warnings) spdlog::warn("hipFile settings: {}", warning);
  current_ = defaults_;
}

}  // namespace api
