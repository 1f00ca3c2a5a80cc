#include "storage/block_device.h"

#include <sys/sysmacros.h>

#include "fake_sysfs.h"

namespace {

using storage::BlockDevice;
using storage::BlockKind;

class BlockDevices : public testing::Test {
 protected:
  BlockDevice read(unsigned major, unsigned minor) {
    auto device = storage::read_block_device(sysfs_.tree(), makedev(major, minor));
    EXPECT_TRUE(device) << major << ":" << minor;
    return device.value_or(BlockDevice());
  }
  fake::Sysfs sysfs_;
};

TEST_F(BlockDevices, KnowsNothingOfNumbersThatSysfsDoesNotHave) {
  EXPECT_FALSE(storage::read_block_device(sysfs_.tree(), makedev(0, 42)));
}

TEST_F(BlockDevices, FindsThePciControllerOfNvme) {
  sysfs_.nvme(0, "259:0");
  BlockDevice d = read(259, 0);
  EXPECT_EQ(d.kind, BlockKind::nvme);
  EXPECT_EQ(d.number, makedev(259, 0));
  EXPECT_EQ(d.pci_address, "0000:01:00.0");
  EXPECT_EQ(d.describe(), "nvme0n1 (NVMe 0000:01:00.0)");
  EXPECT_EQ(d.depth(), 1u);
}

TEST_F(BlockDevices, PartitionsLieOnTheirDisk) {
  sysfs_.partition(sysfs_.nvme(0, "259:0"), "nvme0n1p2", "259:2");
  BlockDevice d = read(259, 2);
  EXPECT_EQ(d.kind, BlockKind::partition);
  ASSERT_EQ(d.below.size(), 1u);
  EXPECT_EQ(d.below[0].kind, BlockKind::nvme);
  EXPECT_EQ(d.describe(), "nvme0n1p2 on nvme0n1 (NVMe 0000:01:00.0)");
  EXPECT_EQ(d.depth(), 1u);
}

TEST_F(BlockDevices, TellsLvmLayoutsApart) {
  const std::string a = sysfs_.nvme(0, "259:0"), b = sysfs_.nvme(1, "259:1");
  sysfs_.mapped("dm-0", "254:0", {a}, "LVM-abcdef", "vg-linear");
  EXPECT_EQ(read(254, 0).kind, BlockKind::linear);

  // Linear over two disks has the disks' limits, striped those of a whole stripe.
  const std::string linear = sysfs_.mapped("dm-1", "254:1", {a, b}, "LVM-abcdef", "vg-concatenated");
  sysfs_.file(linear + "/queue/minimum_io_size", "512\n");
  sysfs_.file(linear + "/queue/optimal_io_size", "0\n");
  EXPECT_EQ(read(254, 1).kind, BlockKind::linear);
  const std::string striped = sysfs_.mapped("dm-2", "254:2", {a, b}, "LVM-abcdef", "vg-striped");
  sysfs_.file(striped + "/queue/minimum_io_size", "65536\n");
  sysfs_.file(striped + "/queue/optimal_io_size", "131072\n");
  EXPECT_EQ(read(254, 2).kind, BlockKind::striped);
  EXPECT_EQ(read(254, 2).leaves().size(), 2u);

  const std::string image0 = sysfs_.mapped("dm-3", "254:3", {a}, "LVM-abcdef", "vg-raid_rimage_0");
  const std::string image1 = sysfs_.mapped("dm-4", "254:4", {b}, "LVM-abcdef", "vg-raid_rimage_1");
  sysfs_.mapped("dm-5", "254:5", {image0, image1}, "LVM-abcdef", "vg-raid");
  EXPECT_EQ(read(254, 5).kind, BlockKind::lvm_raid);
  EXPECT_EQ(read(254, 5).depth(), 3u);

  const std::string data = sysfs_.mapped("dm-6", "254:6", {a}, "LVM-abcdef-tdata", "vg-pool_tdata");
  const std::string pool = sysfs_.mapped("dm-7", "254:7", {data}, "LVM-abcdef-tpool", "vg-pool-tpool");
  sysfs_.mapped("dm-8", "254:8", {pool}, "LVM-abcdef", "vg-thin");
  EXPECT_EQ(read(254, 8).kind, BlockKind::thin);

  const std::string real = sysfs_.mapped("dm-9", "254:9", {a}, "LVM-abcdef-real", "vg-origin-real");
  const std::string cow = sysfs_.mapped("dm-10", "254:10", {a}, "LVM-abcdef-cow", "vg-snap-cow");
  sysfs_.mapped("dm-11", "254:11", {real, cow}, "LVM-abcdef", "vg-snap");
  sysfs_.mapped("dm-12", "254:12", {real}, "LVM-abcdef", "vg-origin");
  EXPECT_EQ(read(254, 11).kind, BlockKind::snapshot);
  EXPECT_EQ(read(254, 12).kind, BlockKind::snapshot);

  const std::string fast = sysfs_.mapped("dm-13", "254:13", {a}, "LVM-abcdef-cdata", "vg-cache_cdata");
  const std::string slow = sysfs_.mapped("dm-14", "254:14", {b}, "LVM-abcdef", "vg-lv_corig");
  sysfs_.mapped("dm-15", "254:15", {fast, slow}, "LVM-abcdef", "vg-lv");
  EXPECT_EQ(read(254, 15).kind, BlockKind::cache);
}

TEST_F(BlockDevices, NamesEncryptionItsFormatAndWhatItLiesOn) {
  const std::string part = sysfs_.partition(sysfs_.nvme(0, "259:0"), "nvme0n1p3", "259:3");
  sysfs_.mapped("dm-0", "254:0", {part}, "CRYPT-LUKS2-0123456789abcdef-home", "home");
  BlockDevice d = read(254, 0);
  EXPECT_EQ(d.kind, BlockKind::crypt);
  EXPECT_EQ(d.describe(), "dm-0 (dm-crypt LUKS2 home) on nvme0n1p3 on nvme0n1 (NVMe 0000:01:00.0)");
  EXPECT_EQ(d.title(), "dm-0 (dm-crypt LUKS2 home)");
}

TEST_F(BlockDevices, KnowsOtherMappedDevicesByTheirUuid) {
  const std::string a = sysfs_.nvme(0, "259:0");
  struct {
    const char *uuid, *name;
    BlockKind kind;
  } const cases[] = {{"CRYPT-PLAIN-swap", "swap", BlockKind::crypt},
                     {"CRYPT-VERITY-0123-root", "root", BlockKind::checked},
                     {"CRYPT-INTEGRITY-data", "data", BlockKind::checked},
                     {"VDO-0123", "vdo0", BlockKind::checked},
                     {"mpath-3600508b400105e210000900000490000", "mpatha", BlockKind::dm_multipath},
                     {"part1-mpath-3600508b4", "mpatha1", BlockKind::linear},
                     {"", "handmade", BlockKind::device_mapper}};
  unsigned minor = 0;
  for (const auto& c : cases) {
    sysfs_.mapped("dm-" + std::to_string(minor), "254:" + std::to_string(minor), {a}, c.uuid, c.name);
    EXPECT_EQ(read(254, minor).kind, c.kind) << c.uuid;
    minor++;
  }
}

TEST_F(BlockDevices, KnowsTheLevelOfSoftwareRaid) {
  const std::string a = sysfs_.nvme(0, "259:0"), b = sysfs_.nvme(1, "259:1");
  const std::string md = sysfs_.over("md0", "9:0", {a, b});
  sysfs_.file(md + "/md/level", "raid5\n");
  EXPECT_EQ(read(9, 0).kind, BlockKind::md);
  EXPECT_EQ(read(9, 0).describe(),
            "md0 (MD raid5) on nvme0n1 (NVMe 0000:01:00.0), nvme1n1 (NVMe 0000:02:00.0)");
}

TEST_F(BlockDevices, KnowsDisksWithoutPci) {
  const std::string loop = sysfs_.over("loop3", "7:3", {});
  sysfs_.file(loop + "/loop/backing_file", "/images/disk.img\n");
  EXPECT_EQ(read(7, 3).kind, BlockKind::loop);
  EXPECT_EQ(read(7, 3).detail, "/images/disk.img");
  sysfs_.over("zram0", "253:0", {});
  EXPECT_EQ(read(253, 0).kind, BlockKind::memory);
  sysfs_.over("ram1", "1:1", {});
  EXPECT_EQ(read(1, 1).kind, BlockKind::memory);
  sysfs_.over("nbd0", "43:0", {});
  EXPECT_EQ(read(43, 0).kind, BlockKind::network);
  sysfs_.over("zd0", "230:0", {});
  EXPECT_EQ(read(230, 0).kind, BlockKind::zfs_volume);
}

TEST_F(BlockDevices, KnowsHowOtherDisksAreAttached) {
  struct {
    const char *path, *number;
    BlockKind kind;
    const char* pci;
  } const cases[] = {
      {"/sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda", "253:16", BlockKind::virtio, "0000:00:05.0"},
      {"/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", "8:0", BlockKind::ata,
       "0000:00:17.0"},
      {"/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/host2/target2:0:1/2:0:1:0/block/sdb", "8:16",
       BlockKind::scsi, "0000:01:00.0"},
      {"/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host3/target3:0:0/3:0:0:0/block/sdc", "8:32",
       BlockKind::usb, "0000:00:14.0"},
      {"/sys/devices/platform/host4/session1/target4:0:0/4:0:0:1/block/sdd", "8:48", BlockKind::network, ""},
      {"/sys/devices/platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "179:0", BlockKind::mmc, ""}};
  for (const auto& c : cases) {
    sysfs_.block(c.path, c.number);
    unsigned major, minor;
    sscanf(c.number, "%u:%u", &major, &minor);
    EXPECT_EQ(read(major, minor).kind, c.kind) << c.path;
    EXPECT_EQ(read(major, minor).pci_address, c.pci) << c.path;
  }
}

TEST_F(BlockDevices, KnowsTheTransportOfNvmeOverFabrics) {
  for (const char* transport : {"tcp", "rdma", "loop"}) {
    const std::string n = std::to_string(transport[0]);
    const std::string controller = "/sys/devices/virtual/nvme-fabrics/ctl/nvme" + n;
    sysfs_.file(controller + "/transport", std::string(transport) + "\n");
    sysfs_.file(controller + "/address", "traddr=10.0.0.1,trsvcid=4420\n");
    sysfs_.file(controller + "/state", "connecting\n");
    sysfs_.block(controller + "/nvme" + n + "n1", "259:" + n);
    BlockDevice d = read(259, static_cast<unsigned>(transport[0]));
    EXPECT_EQ(d.kind, BlockKind::nvme_fabrics);
    EXPECT_EQ(d.detail, std::string(transport) + " traddr=10.0.0.1,trsvcid=4420 connecting");
    EXPECT_EQ(d.pci_address, "");
  }
}

TEST_F(BlockDevices, FindsThePathsOfNativeMultipath) {
  const std::string subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0";
  sysfs_.block(subsystem + "/nvme0n1", "259:0");
  sysfs_.block(subsystem + "/nvme0n2", "259:1");
  for (int n : {0, 1}) {
    const std::string index = std::to_string(n);
    const std::string controller =
        sysfs_.pci("pci0000:00", "0000:0" + index + ":00.0") + "/nvme/nvme" + index;
    sysfs_.file(controller + "/transport", "pcie\n");
    sysfs_.directory(controller + "/nvme0c" + index + "n1");
    sysfs_.directory(controller + "/nvme0c" + index + "n2");
    sysfs_.directory(controller + "/nvme0c" + index + "n11");
    sysfs_.file(controller + "/nvme0c" + index + "n1/ana_state", n ? "inaccessible\n" : "optimized\n");
    sysfs_.link(subsystem + "/nvme" + index, controller);
  }
  BlockDevice d = read(259, 0);
  EXPECT_EQ(d.kind, BlockKind::nvme_multipath);
  ASSERT_EQ(d.below.size(), 2u);
  EXPECT_EQ(d.below[0].name, "nvme0c0n1");
  EXPECT_EQ(d.below[0].pci_address, "0000:00:00.0");
  EXPECT_EQ(d.below[1].kind, BlockKind::nvme);
  EXPECT_EQ(d.below[1].detail, "inaccessible");
}

TEST_F(BlockDevices, DescribesNestedStacksToTheLeaves) {
  const std::string a = sysfs_.partition(sysfs_.nvme(0, "259:0"), "nvme0n1p1", "259:2");
  const std::string b = sysfs_.partition(sysfs_.nvme(1, "259:1"), "nvme1n1p1", "259:3");
  const std::string md = sysfs_.over("md127", "9:127", {a, b});
  sysfs_.file(md + "/md/level", "raid0\n");
  const std::string crypt = sysfs_.mapped("dm-0", "254:0", {md}, "CRYPT-LUKS1-x-c", "c");
  sysfs_.mapped("dm-1", "254:1", {crypt}, "LVM-abc", "vg-data");
  BlockDevice d = read(254, 1);
  EXPECT_EQ(d.describe(),
            "dm-1 (LVM linear vg-data) on dm-0 (dm-crypt LUKS1 c) on md127 (MD raid0) on [nvme0n1p1 on "
            "nvme0n1 (NVMe "
            "0000:01:00.0)], [nvme1n1p1 on nvme1n1 (NVMe 0000:02:00.0)]");
  EXPECT_EQ(d.leaves().size(), 2u);
  EXPECT_EQ(d.depth(), 4u);
}

TEST_F(BlockDevices, ALoopOfDevicesHasAnEnd) {
  const std::string path = sysfs_.mapped("dm-0", "254:0", {}, "", "self");
  sysfs_.link(path + "/slaves/dm-0", path);
  EXPECT_EQ(read(254, 0).kind, BlockKind::device_mapper);
}

}  // namespace
