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
      "socket=/tmp/s,runtime=cuda,routes=staged+pages,copy_threads=5,data=keep,windows=128"));
  EXPECT_EQ(o.engine.copy_threads, 5u);
  EXPECT_EQ(o.engine.cache_use, engine::CacheUse::keep);
  EXPECT_EQ(o.engine.window_bytes, 128u << 20);
  EXPECT_EQ(o.runtime, "cuda");
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
  EXPECT_TRUE(o.read_only);
}

TEST(MountOptions, SwitchOffWindowsAndRefuseWhatMakesNoSense) {
  fs::Options o;
  ASSERT_TRUE(fs::apply_mount_options(o, "windows=0"));
  EXPECT_EQ(o.engine.window_bytes, 0u);
  for (const char* bad : {"windows=1", "windows=x", "copy_threads=0", "copy_threads=257", "data=never"})
    EXPECT_FALSE(fs::apply_mount_options(o, bad)) << bad;
}

TEST(MountOptions, IgnoreWhatIsMeantForFstab) {
  fs::Options o;
  EXPECT_TRUE(fs::apply_mount_options(
      o, "defaults,nofail,_netdev,noauto,user,relatime,x-systemd.automount,comment=x"));
  EXPECT_TRUE(o.fuse_options.empty());
}

TEST(MountOptions, TheLastWordOnRightsAndTimesCounts) {
  fs::Options o;
  ASSERT_TRUE(fs::apply_mount_options(o, "ro,strictatime,nodiratime,nosymfollow,nosuid"));
  EXPECT_TRUE(o.read_only);
  EXPECT_EQ(o.access_times, fs::AccessTimes::always);
  EXPECT_FALSE(o.directory_access_times);
  EXPECT_FALSE(o.follow_links);
  EXPECT_EQ(o.fuse_options, std::vector<std::string>{"nosuid"});
  ASSERT_TRUE(fs::apply_mount_options(o, "rw,noatime,diratime,symfollow"));
  EXPECT_FALSE(o.read_only);
  EXPECT_EQ(o.access_times, fs::AccessTimes::never);
  EXPECT_TRUE(o.directory_access_times);
  EXPECT_TRUE(o.follow_links);
}

TEST(MountOptions, TakeWhatTheMountIsToDo) {
  fs::Options o;
  ASSERT_TRUE(fs::apply_mount_options(o, "uring=on,locks=forward,submounts,hide_source=on,fds=7,fsname=x"));
  EXPECT_EQ(o.uring, fs::Switch::on);
  EXPECT_TRUE(o.forward_locks);
  EXPECT_TRUE(o.submounts);
  EXPECT_TRUE(o.hide_source);
  EXPECT_EQ(o.held_descriptors, 7u);
  EXPECT_EQ(o.fuse_options, std::vector<std::string>{"fsname=x"});
  ASSERT_TRUE(fs::apply_mount_options(o, "uring=off,locks=local,submounts=off"));
  EXPECT_EQ(o.uring, fs::Switch::off);
  EXPECT_FALSE(o.forward_locks);
  EXPECT_FALSE(o.submounts);
}

TEST(MountOptions, SayHowLongTheKernelMayBelieve) {
  auto times = [](const char* list, bool watched) {
    fs::Options o;
    EXPECT_TRUE(fs::apply_mount_options(o, list));
    const fs::CacheTimes t = fs::cache_times(o, watched);
    return std::vector<double>{t.names, t.absence, t.attributes};
  };
  using Times = std::vector<double>;
  EXPECT_EQ(times("", false), (Times{1, 1, 1}));
  EXPECT_GT(times("cache=auto", true)[0], 1);
  EXPECT_GT(times("cache=auto", true)[1], 1);
  EXPECT_EQ(times("cache=auto", true)[2], 1) << "contents are not watched";
  EXPECT_EQ(times("cache=never", true), (Times{0, 0, 0}));
  EXPECT_EQ(times("cache=0.5", true), (Times{0.5, 0.5, 0.5}));
  EXPECT_GE(times("cache=always", false)[2], 86400);
}

TEST(MountOptions, HideNoSourceTogetherWithItsMount) {
  fs::Options o;
  o.hide_source = true;
  o.source = "/data";
  for (const char* bad : {"/data", "/data/mnt", "/"}) {
    o.mountpoint = bad;
    EXPECT_FALSE(fs::check_directories(o)) << bad;
  }
  o.mountpoint = "/database";
  EXPECT_TRUE(fs::check_directories(o));
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
                                         "runtime=nvidia", "remount", "allow_root", "uring=maybe",
                                         "locks=some", "fds=x", "routes=warp", "socket=", "pool=1,slot=2"));

TEST(MountOptions, AllStandInTheHelp) {
  std::string help = fs::mount_options_help();
  for (const char* name : {"runtime=", "tag=", "routes=", "passthrough=", "cache=", "threads=", "pool=",
                           "slot=", "depth=", "io_uring=", "uring=", "locks=", "submounts=", "hide_source=",
                           "fds=", "socket=", "log=", "log_file="})
    EXPECT_NE(help.find(name), std::string::npos) << name;
}

}  // namespace
