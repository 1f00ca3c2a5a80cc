#include "parameters.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace api {
namespace {

constexpr const char* kSizeNames[kSizeParameters] = {"profile_stats",
                                                     "max_io_queue_depth",
                                                     "max_io_threads",
                                                     "min_io_threshold_size_kb",
                                                     "max_request_parallelism",
                                                     "max_direct_io_size_kb",
                                                     "max_device_cache_size_kb",
                                                     "per_buffer_cache_size_kb",
                                                     "max_device_pinned_mem_size_kb",
                                                     "io_batchsize",
                                                     "poll_threshold_size_kb",
                                                     "batch_io_timeout_ms"};
constexpr const char* kBoolNames[kBoolParameters] = {
    "use_poll_mode",   "allow_compat_mode",  "force_compat_mode",       "fs_misc_api_check_aggressive",
    "parallel_io",     "profile_nvtx",       "allow_system_memory",     "use_pcip2pdma",
    "prefer_io_uring", "force_odirect_mode", "skip_topology_detection", "stream_memops_bypass"};
constexpr const char* kStringNames[kStringParameters] = {"logging_level", "logfile_path", "log_dir"};

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

template <size_t N>
std::optional<size_t> index_of(const char* const (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; i++)
    if (name == names[i]) return i;
  return std::nullopt;
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

Settings::Settings()
    : sizes{1, 16, 0, 256, 4, 4096, 256 * 1024, 4096, 256 * 1024, 128, 4, 0}, bools{false, true,  false,
                                                                                    false, true,  false,
                                                                                    true,  false, true,
                                                                                    false, false, false} {}

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
    if (auto i = index_of(kSizeNames, name)) {
      auto value = node.value<int64_t>();
      auto parameter = static_cast<hipFileSizeTConfigParameter_t>(*i);
      if (value && *value >= 0 && valid_size(parameter, static_cast<size_t>(*value)))
        settings.sizes[*i] = static_cast<size_t>(*value);
      else
        warnings.push_back(name + ": not a valid number");
    } else if (auto b = index_of(kBoolNames, name)) {
      auto value = node.value<bool>();
      if (value)
        settings.bools[*b] = *value;
      else
        warnings.push_back(name + ": expected true or false");
    } else if (auto s = index_of(kStringNames, name)) {
      auto value = node.value<std::string>();
      if (value && valid_string(static_cast<hipFileStringConfigParameter_t>(*s), *value))
        settings.strings[*s] = *value;
      else
        warnings.push_back(name + ": not a valid text");
    } else if (name == "unsupported_file_systems") {
      settings.unsupported_file_systems = node.value<bool>().value_or(settings.unsupported_file_systems);
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
  switch (parameter) {
    case hipFileParamProfileStats:
      return value <= 3;
    case hipFileParamExecutionMaxIOQueueDepth:
      return value >= 1 && value <= 256;
    case hipFileParamExecutionMaxIOThreads:
      return value <= 1024;
    case hipFileParamPropertiesMaxDirectIOSizeKB:
      return value >= 4 && value % 4 == 0 && value <= (1 << 20);
    case hipFileParamPropertiesMaxDeviceCacheSizeKB:
    case hipFileParamPropertiesPerBufferCacheSizeKB:
    case hipFileParamPropertiesMaxDevicePinnedMemSizeKB:
      return value >= 4 && value <= SIZE_MAX >> 10;
    case hipFileParamPropertiesIOBatchsize:
      return value >= 1 && value <= 128;
    default:
      return value <= SIZE_MAX >> 10;
  }
}

bool valid_string(hipFileStringConfigParameter_t parameter, const std::string& value) {
  if (parameter == hipFileParamLogDir) {
    struct stat st;
    return stat(value.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  }
  if (parameter == hipFileParamLoggingLevel) {
    const std::string level = lower(value);
    return level == "trace" || level == "debug" || level == "info" || level == "notice" || level == "warn" ||
           level == "error" || level == "off";
  }
  return !value.empty();
}

Parameters::Parameters() {
  defaults_.strings[hipFileParamLoggingLevel] = "warn";
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
