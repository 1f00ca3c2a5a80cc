// Mount tables and what file systems lie on, with a made-up /proc and /sys.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <functional>

#include "fake_sysfs.h"
#include "storage/file.h"
#include "storage/mount_table.h"

namespace {

using storage::BlockKind;
using storage::DataMode;
using storage::MountTable;

class Volumes : public testing::Test {
 protected:
  void SetUp() override { fake_.file("/sys/kernel/uevent_seqnum", "100\n"); }
  void mounts(const std::string& lines) { fake_.file("/proc/self/mountinfo", lines); }
  MountTable& table() {
    if (!table_) table_ = std::make_unique<MountTable>(fake_.root());
    return *table_;
  }
  fake::Sysfs fake_;
  std::unique_ptr<MountTable> table_;
};

TEST_F(Volumes, FindsAMountByNumberAndWhatItLiesOn) {
  const std::string disk = fake_.nvme(0, "259:0");
  fake_.mapped("dm-0", "254:0", {disk}, "CRYPT-LUKS2-1-home", "home");
  mounts(
      "30 1 259:0 / / rw,relatime - xfs /dev/nvme0n1 rw,attr2\n"
      "31 30 254:0 / /home rw,relatime shared:7 - ext4 /dev/mapper/home rw,data=journal\n");
  auto home = table().volume(31, makedev(254, 0));
  ASSERT_TRUE(home);
  EXPECT_EQ(home->mount.type, "ext4");
  EXPECT_EQ(home->mount.target, "/home");
  EXPECT_EQ(home->mount.data_mode, DataMode::journal);
  ASSERT_EQ(home->devices.size(), 1u);
  EXPECT_EQ(home->devices[0].kind, BlockKind::crypt);
  EXPECT_EQ(home->describe(),
            "ext4 (data=journal) on dm-0 (dm-crypt LUKS2 home) on nvme0n1 (NVMe 0000:01:00.0)");
  EXPECT_EQ(table().volume(30, makedev(259, 0))->describe(), "xfs on nvme0n1 (NVMe 0000:01:00.0)");
}

TEST_F(Volumes, FallsBackToTheDeviceWhereTheMountIsOfAnotherNamespace) {
  fake_.nvme(0, "259:0");
  mounts("30 1 259:0 / /data rw - xfs /dev/nvme0n1 rw\n");
  EXPECT_TRUE(table().volume(999, makedev(259, 0)));
  EXPECT_TRUE(table().volume(0, makedev(259, 0)));
  EXPECT_FALSE(table().volume(999, makedev(259, 9)));
}

TEST_F(Volumes, TheNumberOfTheMountComesBeforeTheDevice) {
  // A btrfs subvolume's device number is in no line of the table.
  mounts("40 1 0:35 /@home /home rw - btrfs /dev/nvme0n1 rw,subvol=/@home\n");
  auto volume = table().volume(40, makedev(0, 44));
  ASSERT_TRUE(volume);
  EXPECT_EQ(volume->mount.type, "btrfs");
}

TEST_F(Volumes, FindsAllDevicesOfBtrfs) {
  const std::string a = fake_.nvme(0, "259:0"), b = fake_.nvme(1, "259:1"), c = fake_.nvme(2, "259:2");
  fake_.link("/sys/fs/btrfs/1111/devices/nvme2n1", c);
  fake_.link("/sys/fs/btrfs/2222/devices/nvme0n1", a);
  fake_.link("/sys/fs/btrfs/2222/devices/nvme1n1", b);
  fake_.directory("/sys/fs/btrfs/features");
  mounts("40 1 0:35 / /data rw - btrfs /dev/nvme1n1 rw\n41 1 0:36 / /gone rw - btrfs /dev/nvme7n1 rw\n");
  auto volume = table().volume(40, makedev(0, 35));
  ASSERT_EQ(volume->devices.size(), 2u);
  EXPECT_EQ(volume->devices[1].name, "nvme1n1");
  EXPECT_TRUE(table().volume(41, makedev(0, 36))->devices.empty());
}

TEST_F(Volumes, ResolvesTheLayersOfAnOverlayWhereTheyCanBeSeen) {
  fake_.nvme(0, "259:0");
  fake_.directory("/up");
  struct stat st;
  ASSERT_EQ(stat((fake_.root() + "/up").c_str(), &st), 0);
  const std::string number = std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev));
  mounts("30 1 " + number +
         " / / rw - ext4 /dev/root rw\n"
         "50 1 0:50 / /merged rw - overlay overlay "
         "rw,lowerdir=/host/a\\134:b:/host/c,upperdir=/up,workdir=/work\n");
  auto volume = table().volume(50, makedev(0, 50));
  ASSERT_EQ(volume->layers.size(), 3u);
  EXPECT_EQ(volume->layers[0].path, "/up");
  ASSERT_TRUE(volume->layers[0].volume);
  EXPECT_EQ(volume->layers[0].volume->mount.type, "ext4");
  EXPECT_EQ(volume->layers[1].path, "/host/a:b");
  EXPECT_FALSE(volume->layers[1].volume);
  EXPECT_EQ(volume->describe(),
            "overlay over /up (ext4 (data=ordered)), /host/a:b (out of sight), /host/c (out of sight)");
}

TEST_F(Volumes, ReadsLayersThatHaveOptionsOfTheirOwn) {
  EXPECT_EQ(storage::overlay_layers("rw,lowerdir+=/a,lowerdir+=/b,datadir+=/d,upperdir=/u"),
            (std::vector<std::string>{"/u", "/a", "/b", "/d"}));
  EXPECT_TRUE(storage::overlay_layers("rw,xino=off").empty());
}

TEST_F(Volumes, KnowsTheTransportOfNfs) {
  mounts(
      "60 1 0:60 / /a rw - nfs4 server:/a rw,vers=4.2,proto=rdma,port=20049\n"
      "61 1 0:61 / /b rw - nfs4 server:/b rw,vers=4.2,proto=tcp\n"
      "62 1 0:62 / /c rw - fuse.hipfile-fuse /data rw,user_id=0\n"
      "63 1 0:63 / /d rw - tmpfs tmpfs rw\n");
  EXPECT_EQ(table().volume(60, 0)->mount.transport, "rdma");
  EXPECT_EQ(table().volume(61, 0)->describe(), "nfs4 (tcp)");
  EXPECT_EQ(table().volume(62, 0)->mount.type, "fuse.hipfile-fuse");
  EXPECT_EQ(table().volume(63, 0)->describe(), "tmpfs");
  EXPECT_EQ(table().all().size(), 4u);
}

TEST_F(Volumes, IsReadAgainWhenABlockDeviceChanges) {
  const std::string disk = fake_.nvme(0, "259:0");
  const std::string mapped = fake_.mapped("dm-0", "254:0", {disk}, "LVM-1", "vg-data");
  mounts("30 1 254:0 / /data rw - xfs /dev/mapper/vg-data rw\n");
  auto before = table().volume(30, makedev(254, 0));
  fake_.file(mapped + "/dm/uuid", "CRYPT-LUKS2-1-data\n");
  EXPECT_EQ(table().volume(30, makedev(254, 0)), before);  // nothing was announced
  fake_.file("/sys/kernel/uevent_seqnum", "101\n");
  auto after = table().volume(30, makedev(254, 0));
  EXPECT_EQ(before->devices[0].kind, BlockKind::linear);
  EXPECT_EQ(after->devices[0].kind, BlockKind::crypt);
}

TEST_F(Volumes, ABlockDeviceIsAVolumeOfItsOwn) {
  fake_.nvme(0, "259:0");
  EXPECT_EQ(table().block_volume(makedev(259, 0))->describe(), "block device nvme0n1 (NVMe 0000:01:00.0)");
  EXPECT_TRUE(table().block_volume(makedev(259, 7))->devices.empty());
}

TEST_F(Volumes, WithoutProcAndSysNothingIsKnownAndNothingFails) {
  MountTable nothing(fake_.root() + "/nowhere");
  EXPECT_FALSE(nothing.volume(1, makedev(8, 0)));
  EXPECT_FALSE(nothing.find(makedev(8, 0)));
  EXPECT_TRUE(nothing.all().empty());
}

// Runs `f` in a mount namespace of its own, so that the machine's mounts stay as they are. What it returns, or 77.
constexpr int kSkip = 77;
int in_own_namespace(const std::function<int(const std::string&)>& f) {
  char directory[] = "/var/tmp/volume_XXXXXX";
  if (!mkdtemp(directory)) return kSkip;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0)
      _exit(kSkip);
    _exit(f(directory));
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(directory);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MountTable, SeesMountsAndTheirChangesWhileItLives) {
  const int status = in_own_namespace([](const std::string& directory) {
    // Without /sys, so that the mount table alone can tell.
    const std::string root = directory + "/root", here = directory + "/here";
    std::filesystem::create_directories(root);
    std::filesystem::create_directories(here);
    std::filesystem::create_symlink("/proc", root + "/proc");
    MountTable table(root);
    auto options_now = [&] {
      posix::Fd fd(open(here.c_str(), O_PATH));
      auto facts = storage::examine(fd.get(), table);
      return facts && facts->file_system == "tmpfs" ? facts->volume->mount.options : "";
    };
    const std::string nothing = options_now();
    if (mount("none", here.c_str(), "tmpfs", 0, "size=1M") < 0) return kSkip;
    const std::string before = options_now();
    if (mount("none", here.c_str(), "tmpfs", MS_REMOUNT, "size=2M") < 0) return kSkip;
    const std::string after = options_now();
    return nothing.empty() && before.find("size=1024k") != std::string::npos &&
                   after.find("size=2048k") != std::string::npos
               ? 0
               : 1;
  });
  if (status == kSkip) GTEST_SKIP() << "needs a mount namespace";
  EXPECT_EQ(status, 0);
}

TEST(Ext4, TellsInlineDataAndItsJournalMode) {
  const int status = in_own_namespace([](const std::string& directory) {
    const std::string image = directory + "/image", here = directory + "/mnt";
    const std::string make = "(truncate -s 32M " + image + " && mkfs.ext4 -q -F -O inline_data -I 512 " +
                             image + " && mkdir " + here + " && mount -o loop,data=journal " + image + " " +
                             here + ") >/dev/null 2>&1";
    if (system(make.c_str()) != 0) return kSkip;
    MountTable table;
    posix::Fd little(open((here + "/little").c_str(), O_CREAT | O_RDWR, 0600));
    posix::Fd large(open((here + "/large").c_str(), O_CREAT | O_RDWR, 0600));
    const std::string bytes(1 << 20, 'x');
    if (write(little.get(), "hello", 5) != 5 || write(large.get(), bytes.data(), bytes.size()) < 0) return 1;
    auto a = storage::examine(little.get(), table), b = storage::examine(large.get(), table);
    if (!a || !b || a->file_system != "ext4" || !a->volume) return 2;
    if (!a->inline_data || b->inline_data) return 3;
    if (b->volume->mount.data_mode != DataMode::journal) return 4;
    if (b->volume->devices.size() != 1 || b->volume->devices[0].kind != BlockKind::loop) return 5;
    return 0;
  });
  if (status == kSkip) GTEST_SKIP() << "needs root, mkfs.ext4 and loop devices";
  EXPECT_EQ(status, 0);
}

}  // namespace
