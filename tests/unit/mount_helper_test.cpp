#include "mount_helper.h"

#include <gtest/gtest.h>

namespace {

using Arguments = std::vector<std::string>;

TEST(MountHelper, IsKnownByItsName) {
  EXPECT_TRUE(fs::is_mount_helper("/sbin/mount.fuse.hipfile-fuse"));
  EXPECT_TRUE(fs::is_mount_helper("mount.hipfile-fuse"));
  EXPECT_FALSE(fs::is_mount_helper("/usr/mount.d/hipfile-fuse"));
}

TEST(MountHelper, TakesWhatMountPasses) {
  const auto call = fs::parse_mount_call(
      {"/data", "/mnt/gpu", "-n", "-sv", "-N", "ns", "-o", "rw,dev,suid,tag=all", "-t", "fuse.hipfile-fuse"});
  EXPECT_EQ(call.arguments, (Arguments{"/data", "/mnt/gpu", "-o", "rw,dev,suid,tag=all"}));
  EXPECT_FALSE(call.fake);
  EXPECT_FALSE(call.remount);
}

TEST(MountHelper, KnowsFakesAndRemounts) {
  EXPECT_TRUE(fs::parse_mount_call({"/data", "/mnt/gpu", "-f"}).fake);
  const auto call =
      fs::parse_mount_call({"/data", "/mnt/gpu", "-o", "rw,user_id=0,cache=auto", "-o", "remount,ro"});
  EXPECT_TRUE(call.remount);
  EXPECT_EQ(call.options, "rw,remount,ro");
  EXPECT_EQ(call.directory, "/mnt/gpu");
}

}  // namespace
