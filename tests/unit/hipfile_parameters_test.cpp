// Properties and parameters: staged before open, in force until close. And where their values come from.
#include "hipfile_fixture.h"
#include "parameters.h"

namespace {

class Parameters : public HipFile {};

TEST_F(Parameters, SizesAreStagedAppliedAndCleared) {
  size_t value = 0, before = 0;
  expect(hipFileGetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, &before), hipFileSuccess);
  expect(hipFileSetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, 1024), hipFileSuccess);
  expect(hipFileDriverOpen(), hipFileSuccess);
  expect(hipFileGetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, &value), hipFileSuccess);
  EXPECT_EQ(value, 1024u);
  expect(hipFileSetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, 2048), hipFileDriverAlreadyOpen);
  fill_file(pattern(5 << 20));
  EXPECT_EQ(hipFileRead(register_fd(fd_), device_, 5 << 20, 0, 0), 5 << 20);
  EXPECT_EQ(from_device(5 << 20), pattern(5 << 20));
  expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileGetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, &value), hipFileSuccess);
  EXPECT_EQ(value, before);
}

TEST_F(Parameters, BoolsAndStringsLikewise) {
  bool flag = false;
  expect(hipFileSetParameterBool(hipFileParamPropertiesUsePollMode, true), hipFileSuccess);
  expect(hipFileSetParameterString(hipFileParamLogDir, "/tmp"), hipFileSuccess);
  expect(hipFileDriverOpen(), hipFileSuccess);
  expect(hipFileGetParameterBool(hipFileParamPropertiesUsePollMode, &flag), hipFileSuccess);
  EXPECT_TRUE(flag);
  char text[16], tiny[4];
  expect(hipFileGetParameterString(hipFileParamLogDir, text, sizeof text), hipFileSuccess);
  EXPECT_STREQ(text, "/tmp");
  expect(hipFileGetParameterString(hipFileParamLogDir, tiny, sizeof tiny), hipFileInvalidValue);
  expect(hipFileSetParameterBool(hipFileParamPropertiesUsePollMode, false), hipFileDriverAlreadyOpen);
  expect(hipFileSetParameterString(hipFileParamLogDir, "/tmp"), hipFileDriverAlreadyOpen);
  expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileGetParameterBool(hipFileParamPropertiesUsePollMode, &flag), hipFileSuccess);
  EXPECT_FALSE(flag);
}

TEST_F(Parameters, RefuseWhatIsUnknownOrOutOfRange) {
  size_t size;
  bool flag;
  char text[8];
  for (int p : {-1, 12, 1000}) {
    expect(hipFileGetParameterSizeT(static_cast<hipFileSizeTConfigParameter_t>(p), &size),
           hipFileInvalidValue);
    expect(hipFileSetParameterSizeT(static_cast<hipFileSizeTConfigParameter_t>(p), 1), hipFileInvalidValue);
    expect(hipFileGetParameterBool(static_cast<hipFileBoolConfigParameter_t>(p), &flag), hipFileInvalidValue);
    expect(hipFileSetParameterBool(static_cast<hipFileBoolConfigParameter_t>(p), true), hipFileInvalidValue);
    expect(hipFileGetParameterString(static_cast<hipFileStringConfigParameter_t>(p), text, 8),
           hipFileInvalidValue);
    expect(hipFileSetParameterString(static_cast<hipFileStringConfigParameter_t>(p), "x"),
           hipFileInvalidValue);
  }
  expect(hipFileGetParameterSizeT(hipFileParamProfileStats, nullptr), hipFileInvalidValue);
  expect(hipFileGetParameterBool(hipFileParamForceCompatMode, nullptr), hipFileInvalidValue);
  expect(hipFileGetParameterString(hipFileParamLogDir, nullptr, 8), hipFileInvalidValue);
  expect(hipFileGetParameterString(hipFileParamLogDir, text, 0), hipFileInvalidValue);
  expect(hipFileSetParameterString(hipFileParamLogDir, nullptr), hipFileInvalidValue);
  expect(hipFileSetParameterString(hipFileParamLogDir, "/nowhere"), hipFileInvalidValue);
  expect(hipFileSetParameterString(hipFileParamLoggingLevel, "loud"), hipFileInvalidValue);
  expect(hipFileSetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, 0), hipFileInvalidValue);
  expect(hipFileSetParameterSizeT(hipFileParamPropertiesMaxDirectIOSizeKB, 5), hipFileInvalidValue);
  expect(hipFileSetParameterSizeT(hipFileParamProfileStats, 4), hipFileInvalidValue);
}

TEST_F(Parameters, PropertiesShowThem) {
  hipFileDriverProps_t props;
  expect(hipFileDriverGetProperties(nullptr), hipFileInvalidValue);
  expect(hipFileDriverSetPollMode(true, 8), hipFileSuccess);
  expect(hipFileDriverSetMaxDirectIOSize(2048), hipFileSuccess);
  expect(hipFileDriverSetMaxCacheSize(65536), hipFileSuccess);
  expect(hipFileDriverSetMaxPinnedMemSize(32768), hipFileSuccess);
  expect(hipFileDriverOpen(), hipFileSuccess);
  expect(hipFileDriverGetProperties(&props), hipFileSuccess);
  EXPECT_EQ(props.nvfs.minor_version, 5u);
  EXPECT_EQ(props.nvfs.poll_thresh_size, 8u);
  EXPECT_EQ(props.nvfs.max_direct_io_size, 2048u);
  EXPECT_EQ(props.max_device_cache_size, 65536u);
  EXPECT_EQ(props.max_device_pinned_mem_size, 32768u);
  EXPECT_EQ(props.max_batch_io_count, 128u);
  EXPECT_TRUE(props.nvfs.driver_control_flags & 1u << hipFileUsePollMode);
  EXPECT_TRUE(props.feature_flags & 1u << hipFileStreamsSupported);
  expect(hipFileDriverSetPollMode(false, 4), hipFileDriverAlreadyOpen);
  expect(hipFileDriverSetMaxDirectIOSize(4096), hipFileDriverAlreadyOpen);
  expect(hipFileDriverSetMaxCacheSize(4096), hipFileDriverAlreadyOpen);
  expect(hipFileDriverSetMaxPinnedMemSize(4096), hipFileDriverAlreadyOpen);
}

// ------------------------------------------------------------------------------------------- file and environment

TEST(Settings, BoolsAreUnderstoodInEveryUsualSpelling) {
  for (const char* yes : {"1", "true", "TRUE", "Yes", "on"}) EXPECT_EQ(api::parse_bool(yes), true) << yes;
  for (const char* no : {"0", "false", "No", "OFF"}) EXPECT_EQ(api::parse_bool(no), false) << no;
  for (const char* neither : {"", "2", "maybe", "truee", " true"})
    EXPECT_FALSE(api::parse_bool(neither)) << neither;
}

TEST(Settings, LogLevelsAreTakenAsTheyAreChecked) {
  EXPECT_EQ(api::parse_log_level("WARN"), spdlog::level::warn);
  EXPECT_EQ(api::parse_log_level("Error"), spdlog::level::err);
  EXPECT_EQ(api::parse_log_level("notice"), spdlog::level::info);
  EXPECT_FALSE(api::parse_log_level("warning, please"));
  for (const char* level : {"trace", "DEBUG", "info", "notice", "warn", "error", "off"})
    EXPECT_TRUE(api::valid_string(hipFileParamLoggingLevel, level)) << level;
}

TEST(Settings, MountRulesEndAtAPathsComponent) {
  for (const char* path : {"/data", "/data/"}) {
    const api::MountRule rule{path, engine::RouteSet::all()};
    EXPECT_TRUE(rule.covers("/data"));
    EXPECT_TRUE(rule.covers("/data/models/a"));
    EXPECT_FALSE(rule.covers("/database/a"));
    EXPECT_FALSE(rule.covers("/"));
  }
  const api::MountRule everything{"/", engine::RouteSet::all()};
  EXPECT_TRUE(everything.covers("/data/a"));
}

TEST(Settings, DefaultsMayBeSet) {
  const api::Settings s;
  for (size_t i = 0; i < api::kSizeParameters; i++)
    EXPECT_TRUE(api::valid_size(static_cast<hipFileSizeTConfigParameter_t>(i), s.sizes[i])) << i;
  EXPECT_EQ(s.size(hipFileParamPropertiesMaxDirectIOSizeKB), 4096u);
  EXPECT_EQ(s.size(hipFileParamPropertiesMaxDevicePinnedMemSizeKB), 262144u);
  EXPECT_TRUE(s.flag(hipFileParamPropertiesAllowCompatMode));
  EXPECT_TRUE(s.flag(hipFileParamPreferIOUring));
  EXPECT_FALSE(s.flag(hipFileParamForceCompatMode));
}

TEST(Settings, EnvironmentVariablesAreAppliedAndOddOnesReported) {
  api::Settings s;
  api::Warnings warnings;
  api::apply_environment(
      s,
      [](const char* name) -> const char* {
        std::string n = name;
        if (n == "HIPFILE_ALLOW_COMPAT_MODE") return "0";
        if (n == "HIPFILE_FORCE_COMPAT_MODE") return "perhaps";
        if (n == "HIPFILE_UNSUPPORTED_FILE_SYSTEMS") return "yes";
        if (n == "HIPFILE_STATS_LEVEL") return "99";
        if (n == "HIPFILE_ASYNC_BUFFER_SIZE") return "-3";
        return nullptr;
      },
      warnings);
  EXPECT_FALSE(s.flag(hipFileParamPropertiesAllowCompatMode));
  EXPECT_FALSE(s.flag(hipFileParamForceCompatMode));
  EXPECT_TRUE(s.unsupported_file_systems);
  EXPECT_EQ(s.size(hipFileParamProfileStats), 3u);
  EXPECT_EQ(warnings.size(), 2u);
}

TEST(Settings, SayHowDataIsReadByEnvironmentAndByFile) {
  auto environment = [](const char* name) -> const char* {
    std::string n = name;
    if (n == "HIPFILE_DATA") return "once";
    if (n == "HIPFILE_COPY_THREADS") return "3";
    if (n == "HIPFILE_WINDOWS_MB") return "0";
    return nullptr;
  };
  api::Settings s;
  api::Warnings warnings;
  ASSERT_TRUE(api::apply_file(s, "data = 'keep'\ncopy_threads = 7\nwindows_mb = 512\n", warnings));
  EXPECT_EQ(s.engine_config().cache_use, engine::CacheUse::keep);
  EXPECT_EQ(s.engine_config().copy_threads, 7u);
  EXPECT_EQ(s.engine_config().window_bytes, 512u << 20);
  api::apply_environment(s, environment, warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(s.engine_config().cache_use, engine::CacheUse::once);
  EXPECT_EQ(s.engine_config().copy_threads, 3u);
  EXPECT_EQ(s.engine_config().window_bytes, 0u);
  ASSERT_TRUE(api::apply_file(s, "data = 'x'\ncopy_threads = 0\nwindows_mb = 63\n", warnings));
  EXPECT_EQ(warnings.size(), 3u);
}

TEST(Settings, CompatModesChooseRoutes) {
  using engine::Route;
  api::Settings s;
  EXPECT_TRUE(s.engine_config().routes.has(Route::peer));
  s.bools[hipFileParamForceCompatMode] = true;
  EXPECT_FALSE(s.engine_config().routes.has(Route::peer));
  EXPECT_TRUE(s.engine_config().routes.has(Route::staged));
  s.bools[hipFileParamPropertiesAllowCompatMode] = false;  // forced wins over forbidden
  EXPECT_TRUE(s.engine_config().routes.has(Route::staged));
  s.bools[hipFileParamForceCompatMode] = false;
  EXPECT_FALSE(s.engine_config().routes.has(Route::staged));
  EXPECT_TRUE(s.engine_config().routes.has(Route::peer));
}

TEST(Settings, AConfigurationFileIsReadAndItsMistakesReported) {
  api::Settings s;
  api::Warnings warnings;
  ASSERT_TRUE(api::apply_file(s, R"(
max_direct_io_size_kb = 8192
allow_compat_mode = false
logging_level = "debug"
routes = "staged,cached"
max_io_queue_depth = 0
colour = "blue"
[[mount]]
path = "/scratch"
routes = "peer,staged"
[[mount]]
path = "/broken"
)",
                              warnings));
  EXPECT_EQ(s.size(hipFileParamPropertiesMaxDirectIOSizeKB), 8192u);
  EXPECT_FALSE(s.flag(hipFileParamPropertiesAllowCompatMode));
  EXPECT_EQ(s.strings[hipFileParamLoggingLevel], "debug");
  EXPECT_FALSE(s.routes.has(engine::Route::peer));
  ASSERT_EQ(s.mounts.size(), 1u);
  EXPECT_EQ(s.mounts[0].path, "/scratch");
  EXPECT_EQ(warnings.size(), 3u);  // max_io_queue_depth, colour, /broken
  auto bad = api::apply_file(s, "routes = \n", warnings);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, EINVAL);
  EXPECT_NE(bad.error().context.find("line"), std::string::npos);
}

}  // namespace
