// The parameters of the C API: where values come from, and when they count.
//
// A value is, first to last: staged by hipFileSetParameter* while the driver was closed; an environment
// variable; the configuration file that HIPFILE_CONFIG names; the default. What is staged is cleared by the
// last close.
#pragma once

#include <spdlog/common.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "hipfile.h"
#include "posix/error.h"
#include "posix/path.h"

namespace api {

inline constexpr size_t kSizeParameters = 12, kBoolParameters = 12, kStringParameters = 3;

/// A rule of the configuration file for the files of one mount.
struct MountRule {
  std::string path;
  engine::RouteSet routes;
  /// Whether the rule is for this file.
  bool covers(std::string_view file) const { return posix::lies_under(file, path); }
};

/// One consistent set of values.
struct Settings {
  std::array<size_t, kSizeParameters> sizes;
  std::array<bool, kBoolParameters> bools;
  std::array<std::string, kStringParameters> strings;
  bool unsupported_file_systems = false;  ///< peer DMA on any file system
  engine::RouteSet routes = engine::RouteSet::all();
  std::vector<MountRule> mounts;
  engine::CacheUse data = engine::CacheUse::automatic;
  unsigned copy_threads = 0;           ///< 0: by the number of CPUs
  std::optional<size_t> window_bytes;  ///< as in engine::Config

  Settings();
  size_t size(hipFileSizeTConfigParameter_t p) const { return sizes[static_cast<size_t>(p)]; }
  bool flag(hipFileBoolConfigParameter_t p) const { return bools[static_cast<size_t>(p)]; }
  /// What the engine is to do.
  engine::Config engine_config() const;
};

/// A problem with a setting that does not stop anything: to be logged once.
using Warnings = std::vector<std::string>;

/// "1", "true", "yes", "on" and their opposites, in any case.
std::optional<bool> parse_bool(const std::string& text);

/// trace, debug, info, notice, warn, error, off, in any case.
std::optional<spdlog::level::level_enum> parse_log_level(const std::string& text);

/// Applies the text of a TOML configuration file. EINVAL with the line if it is not TOML; unknown keys and
/// values of the wrong type are warnings.
posix::Result<void> apply_file(Settings& settings, const std::string& text, Warnings& warnings);

/// Applies environment variables, looked up with `get` (null: unset). What cannot be understood is a warning.
void apply_environment(Settings& settings, const char* (*get)(const char*), Warnings& warnings);

/// Whether a value may be set; the limits are those that hipFileSet* documents.
bool valid_size(hipFileSizeTConfigParameter_t parameter, size_t value);
bool valid_string(hipFileStringConfigParameter_t parameter, const std::string& value);

/// Defaults from file and environment, what is staged, and what is in force. Not thread-safe: the driver's
/// lock is.
class Parameters {
 public:
  /// Reads HIPFILE_CONFIG and the environment, and logs their warnings.
  Parameters();
  /// In force while open; what the next open will bring while closed.
  const Settings& current() const { return current_; }
  Settings& staged() { return current_; }
  /// The last reference was given back.
  void closed() { current_ = defaults_; }

 private:
  Settings defaults_, current_;
};

}  // namespace api
