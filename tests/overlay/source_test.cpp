// The source: what is mounted below and over it, how it is hidden, and mount(8) with its options.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "mounted.h"

namespace {

class SourceTest : public overlay::Mounted {
 protected:
  void mount_tmpfs_below() {
    ASSERT_EQ(mkdir(source("below").c_str(), 0755), 0);
    make_file("below/under", {'u'});
    ASSERT_EQ(::mount("none", source("below").c_str(), "tmpfs", 0, nullptr), 0);
    make_file("below/over", {'o'});
  }
  void TearDown() override {
    Mounted::unmount();
    umount2(source("below").c_str(), MNT_DETACH);
    Mounted::TearDown();
  }
  bool exists(const std::string& name) const { return access(mounted(name).c_str(), F_OK) == 0; }
};

TEST_F(SourceTest, ShowsWhatLiesUnderneathWhatIsMountedBelow) {
  mount_tmpfs_below();
  mount();
  EXPECT_TRUE(exists("below/under"));
  EXPECT_FALSE(exists("below/over"));
}

TEST_F(SourceTest, CrossesIntoWhatIsMountedBelowIfAsked) {
  mount_tmpfs_below();
  mount("submounts=on");
  EXPECT_FALSE(exists("below/under"));
  ASSERT_TRUE(exists("below/over"));
  posix::Fd fd(open(mounted("below/over").c_str(), O_RDWR));
  char byte = 0;
  ASSERT_EQ(read(fd.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'o');
  EXPECT_EQ(rename(mounted("below/over").c_str(), mounted("over").c_str()), -1);
  EXPECT_EQ(errno, EXDEV);
  // Inodes of two file systems do not get the same number.
  struct stat inside, outside;
  ASSERT_EQ(stat(source("below/over").c_str(), &outside), 0);
  ASSERT_EQ(stat(mounted("below/over").c_str(), &inside), 0);
  EXPECT_NE(inside.st_ino, outside.st_ino);
}

TEST_F(SourceTest, AMountPointInsideTheSourceDoesNotRecurse) {
  ASSERT_EQ(mkdir(source("mnt").c_str(), 0755), 0);
  make_file("a", {'a'});
  ASSERT_EQ(shell(program("hipfile-fuse") + " " + source_ + " " + source("mnt")).first, 0);
  struct stat st;
  EXPECT_EQ(stat(source("mnt/a").c_str(), &st), 0);
  EXPECT_EQ(stat(source("mnt/mnt").c_str(), &st), 0);
  EXPECT_EQ(stat(source("mnt/mnt/a").c_str(), &st), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(shell("umount " + source("mnt")).first, 0);
}

TEST_F(SourceTest, StaysThatOfTheStartWhateverIsMountedOverItLater) {
  make_file("a", {'a'});
  mount();
  ASSERT_EQ(::mount("none", source_.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_TRUE(exists("a"));
  umount2(source_.c_str(), MNT_DETACH);
}

// Otherwise `cp SOURCE/f MOUNT/f` takes one file for two, and empties it.
TEST_F(SourceTest, CanBeHiddenForAsLongAsTheMountLives) {
  make_file("f", {'k', 'e', 'e', 'p'});
  mount("hide_source");
  EXPECT_NE(shell("cp " + source("f") + " " + mounted("f")).first, 0);
  EXPECT_NE(shell("mv " + source("f") + " " + mounted("f")).first, 0);
  EXPECT_EQ(shell("cat " + mounted("f")).second, "keep");
  EXPECT_EQ(unmount(), 0);
  EXPECT_EQ(shell("cat " + source("f")).second, "keep");
}

TEST_F(SourceTest, MountedOverItselfCpAndMvKnowTheFileForTheSame) {
  make_file("f", {'k', 'e', 'e', 'p'});
  ASSERT_EQ(shell(program("hipfile-fuse") + " " + source_ + " " + source_).first, 0);
  ASSERT_EQ(symlink(source_.c_str(), (directory_ + "/alias").c_str()), 0);
  shell("cp " + source("f") + " " + directory_ + "/alias/f");
  shell("mv " + source("f") + " " + directory_ + "/alias/f");
  EXPECT_EQ(shell("cat " + source("f")).second, "keep");
  EXPECT_EQ(shell("umount " + source_).first, 0);
  EXPECT_EQ(shell("cat " + source("f")).second, "keep");
}

TEST_F(SourceTest, NoatimeMeansThatReadingLeavesNoTrace) {
  make_file("f", pattern(10000));
  const timespec times[2] = {{1000, 0}, {2000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, source("f").c_str(), times, 0), 0);
  mount("noatime");
  EXPECT_EQ(shell("cat " + mounted("f") + " > /dev/null").first, 0);
  struct stat st;
  ASSERT_EQ(stat(source("f").c_str(), &st), 0);
  EXPECT_EQ(st.st_atim.tv_sec, 1000);
}

TEST_F(SourceTest, AccessTimesGoByTheOptions) {
  struct Case {
    const char* options;
    bool of_files, of_directories;
  };
  make_file("f", {'1'});
  ASSERT_EQ(mkdir(source("d").c_str(), 0755), 0);
  for (const Case& c : {Case{"strictatime", true, true}, Case{"noatime", false, false},
                        Case{"strictatime,nodiratime", true, false}}) {
    timespec then[2] = {};  // lately enough for relatime to leave it alone
    clock_gettime(CLOCK_REALTIME, &then[0]);
    then[0].tv_sec -= 10;
    then[1].tv_sec = 1'000'000'000;
    for (const char* name : {"f", "d"}) ASSERT_EQ(utimensat(AT_FDCWD, source(name).c_str(), then, 0), 0);
    mount(c.options);
    EXPECT_EQ(shell("cat " + mounted("f") + "; ls " + mounted("d")).first, 0);
    auto read_since = [&](const char* name) {
      struct stat st {};
      EXPECT_EQ(stat(source(name).c_str(), &st), 0);
      return st.st_atim.tv_sec != then[0].tv_sec;
    };
    EXPECT_EQ(read_since("f"), c.of_files) << c.options;
    EXPECT_EQ(read_since("d"), c.of_directories) << c.options;
    EXPECT_EQ(unmount(), 0);
  }
}

TEST_F(SourceTest, NosymfollowFollowsNone) {
  make_file("f", {'1'});
  ASSERT_EQ(symlink("f", source("link").c_str()), 0);
  mount("nosymfollow");
  EXPECT_EQ(open(mounted("link").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_TRUE(exists("f"));
}

// On many systems every mount is shared: what is mounted later would come into the daemon's own view, too.
TEST_F(SourceTest, SeesNothingThatIsMountedLater) {
  if (!has_mount_namespaces()) GTEST_SKIP() << "needs mount namespaces";
  ASSERT_EQ(mkdir(source("below").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(source("mnt").c_str(), 0755), 0);
  make_file("below/under", {'u'});
  auto [status, out] =
      shell("unshare -m --propagation shared sh -ec 'mount --bind " + source_ + " " + source_ +
            "; mount --make-shared " + source_ + "; for o in off on; do " + program("hipfile-fuse") + " " +
            source_ + " " + source("mnt") + " -o socket=none,submounts=$o; mount -t tmpfs none " +
            source("below") + "; test -e " + source("mnt/below/under") + "; timeout 20 find " +
            source("mnt") + " | wc -l; umount " + source("below") + "; umount " + source("mnt") + "; done'");
  EXPECT_EQ(status, 0) << out;
}

TEST_F(SourceTest, CannotBeHiddenWhereTheMountWouldBeHiddenWithIt) {
  ASSERT_EQ(mkdir(source("mnt").c_str(), 0755), 0);
  for (const std::string& where : {source_, source("mnt")}) {
    auto [status, out] = shell(program("hipfile-fuse") + " " + source_ + " " + where + " -o hide_source");
    EXPECT_NE(status, 0);
    EXPECT_NE(out.find("hide_source"), std::string::npos) << out;
  }
}

TEST_F(SourceTest, ReadOnlyIsReadOnly) {
  make_file("f", {'1'});
  mount("ro");
  EXPECT_EQ(open(mounted("f").c_str(), O_RDWR), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(mkdir(mounted("d").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
}

// Its descriptors 0 to 2 then go to other files, which the daemon must not take for its own output.
TEST_F(SourceTest, StartsWithoutStandardDescriptors) {
  make_file("f", {'1'});
  auto [status, out] = shell(program("hipfile-fuse") + " " + source_ + " " + mount_ + " <&- >&- 2>&-");
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shell("cat " + mounted("f")).second, "1");
  EXPECT_EQ(shell("umount " + mount_).first, 0);
}

// mount(8), in a mount namespace of its own in which /sbin has our helper, too. `table` is an fstab.
class MountCommand : public SourceTest {
 protected:
  void SetUp() override {
    SourceTest::SetUp();
    if (!IsSkipped() && !has_mount_namespaces()) GTEST_SKIP() << "needs mount namespaces";
  }
  std::pair<int, std::string> with_helper(const std::string& commands) {
    const std::string sbin = directory_ + "/sbin";
    return shell("mkdir -p " + sbin + " && ln -sf " + program("hipfile-fuse") + " " + sbin +
                 "/mount.fuse.hipfile-fuse && unshare -m sh -ec 'mount -t overlay overlay -o lowerdir=" +
                 sbin + ":/usr/sbin /usr/sbin; " + commands + "'");
  }
};

TEST_F(MountCommand, MountsWithATypeAndOptions) {
  make_file("f", {'1'});
  auto [status, out] = with_helper("mount -t fuse.hipfile-fuse " + source_ + " " + mount_ +
                                   " -o noatime,nofail,x-systemd.automount,tag=all; cat " + mounted("f") +
                                   "; findmnt -n -o FSTYPE " + mount_ + "; umount " + mount_);
  EXPECT_EQ(status, 0) << out;
  EXPECT_EQ(out, "1fuse.hipfile-fuse\n");
}

TEST_F(MountCommand, MountsAndRemountsALineOfFstab) {
  make_file("f", {'1'});
  std::ofstream(directory_ + "/fstab")
      << source_ << " " << mount_ << " fuse.hipfile-fuse rw,noatime,nofail,_netdev,cache=auto 0 0\n";
  auto [status, out] = with_helper("mount -T " + directory_ + "/fstab " + mount_ + "; cat " + mounted("f") +
                                   "; mount -o remount,ro " + mount_ + "; ! touch " + mounted("g") +
                                   " 2>/dev/null; umount " + mount_);
  EXPECT_EQ(status, 0) << out;
  EXPECT_EQ(out, "1");
}

// Without a helper of our own mount(8) falls back on FUSE's, which looks the program up where commands are.
TEST_F(MountCommand, MountsByTheGeneralHelperOfFuse) {
  make_file("f", {'1'});
  const std::string bin = directory_ + "/bin";
  auto [status, out] = shell("mkdir " + bin + " && ln -s " + program("hipfile-fuse") + " " + bin +
                             " && unshare -m sh -ec 'mount -t overlay overlay -o lowerdir=" + bin +
                             ":/usr/bin /usr/bin; mount -t fuse.hipfile-fuse " + source_ + " " + mount_ +
                             " -o noatime; cat " + mounted("f") + "; umount " + mount_ + "'");
  EXPECT_EQ(status, 0) << out;
  EXPECT_EQ(out, "1");
}

}  // namespace
