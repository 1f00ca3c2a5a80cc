#include "options.h"

#include <gtest/gtest.h>

namespace {

TEST(MountOptions, HaveUsefulDefaults) {
  fs::Options o;
  ASSERT_TRUE(fs::apply_mount_options(o, ""));
  EXPECT_EQ(o.tag, fs::TagPolicy::registered);
  EXPECT_TRUE(o.passthrough);
  EXPECT_EQ(o.runtime, "auto");
}

TEST(MountOptions, AreTakenFromACommaSeparatedList) {
  fs::Options o;
  ASSERT_TRUE(fs::apply_mount_options(
      o,
      "tag=all,passthrough=off,cache=0.5,threads=3,pool=64,slot=2,depth=8,io_uring=off,log=debug,ro,"
      "socket=/tmp/s,runtime=software,routes=staged+pages"));
  EXPECT_EQ(o.tag, fs::TagPolicy::all);
  EXPECT_FALSE(o.passthrough);
  EXPECT_DOUBLE_EQ(o.cache_seconds, 0.5);
  EXPECT_EQ(o.engine_threads, 3u);
  EXPECT_EQ(o.engine.pool_bytes, 64u << 20);
  EXPECT_EQ(o.engine.slot_bytes, 2u << 20);
  EXPECT_EQ(o.engine.depth, 8u);
  EXPECT_FALSE(o.engine.io_uring);
  EXPECT_TRUE(o.engine.routes.has(engine::Route::staged));
  EXPECT_FALSE(o.engine.routes.has(engine::Route::peer));
  EXPECT_EQ(o.fuse_options, std::vector<std::string>{"ro"});
}

TEST(MountOptions, IgnoreWhatIsMeantForFstab) {
  fs::Options o;
  EXPECT_TRUE(fs::apply_mount_options(
      o, "defaults,nofail,_netdev,noauto,user,relatime,x-systemd.automount,comment=x"));
  EXPECT_TRUE(o.fuse_options.empty());
}

class BadOption : public testing::TestWithParam<const char*> {};

TEST_P(BadOption, IsNamedInTheError) {
  fs::Options o;
  auto applied = fs::apply_mount_options(o, GetParam());
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, EINVAL);
  std::string name(GetParam());
  EXPECT_NE(applied.error().context.find(name.substr(0, name.find('='))), std::string::npos)
      << applied.error().context;
}

INSTANTIATE_TEST_SUITE_P(All, BadOption,
                         testing::Values("fast", "tag=some", "threads=0", "threads=x", "depth=1000", "pool=0",
                                         "log=loud", "cache=-1", "cache=x", "passthrough=maybe",
                                         "runtime=nvidia", "routes=warp", "socket=", "pool=1,slot=2"));

TEST(MountOptions, AllStandInTheHelp) {
  std::string help = fs::mount_options_help();
  for (const char* name : {"runtime=", "tag=", "routes=", "passthrough=", "cache=", "threads=", "pool=",
                           "slot=", "depth=", "io_uring=", "socket=", "log=", "log_file="})
    EXPECT_NE(help.find(name), std::string::npos) << name;
}

}  // namespace
