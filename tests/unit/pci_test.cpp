#include "sysfs/pci.h"

#include "fake_sysfs.h"

namespace {

using sysfs::PeerDistance;
using sysfs::PeerPath;

class Pci : public testing::Test {
 protected:
  // Root port, switch, and two endpoints below it; a third one below another root port, a fourth below another bridge.
  void SetUp() override {
    fake_.file("/proc/cpuinfo", "processor : 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n\n");
    root("0x8086", "0x7d1b");
    fake_.pci("pci0000:00", "0000:00:01.0", "0x8086", "0x7ecc", "0x060400");
    fake_.pci("pci0000:00", "0000:00:02.0", "0x8086", "0x7ecc", "0x060400");
    fake_.pci("pci0000:00/0000:00:01.0", "0000:01:00.0", "0x1000", "0xc030", "0x060400");
    fake_.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0000:02:00.0", "0x1000", "0xc030", "0x060400");
    fake_.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0000:02:01.0", "0x1000", "0xc030", "0x060400");
    fake_.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0000:03:00.0");
    gpu_ = fake_.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", "0000:04:00.0", "0x1002", "0x74a1",
                     "0x120000");
    fake_.pci("pci0000:00/0000:00:02.0", "0000:05:00.0");
    fake_.pci("pci0000:80", "0000:80:01.0", "0x8086", "0x7ecc", "0x060400");
    fake_.pci("pci0000:80/0000:80:01.0", "0000:81:00.0");
  }
  void root(const std::string& vendor, const std::string& device, const std::string& bridge = "pci0000:00") {
    const std::string address = bridge.substr(3) + ":00.0";
    if (!std::filesystem::exists(fake_.root() + "/sys/bus/pci/devices/" + address))
      fake_.pci(bridge, address, vendor, device, "0x060000");
    fake_.file("/sys/devices/" + bridge + "/" + address + "/vendor", vendor);
    fake_.file("/sys/devices/" + bridge + "/" + address + "/device", device);
  }
  PeerDistance between(const std::string& a, const std::string& b) {
    auto tree = fake_.tree();
    auto first = sysfs::read_pci(tree, a), second = sysfs::read_pci(tree, b);
    EXPECT_TRUE(first && second);
    return sysfs::peer_distance(tree, *first, *second);
  }
  // Configuration space with an AER capability, and ACS behind it.
  void acs(const std::string& path, char control) {
    std::string config(4096, '\0');
    config[0x100] = 1;
    config[0x102] = 1;
    config[0x103] = 0x20;  // next at 0x200
    config[0x200] = 0x0d;
    config[0x206] = control;
    config.back() = 1;
    fake_.file(path + "/config", config);
  }
  const std::string kDownstream = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0";
  fake::Sysfs fake_;
  std::string gpu_;
};

TEST_F(Pci, RecognisesAddresses) {
  EXPECT_TRUE(sysfs::is_pci_address("0000:03:00.0"));
  EXPECT_TRUE(sysfs::is_pci_address("10000:e1:1f.7"));
  for (const char* no : {"nvme0", "pci0000:00", "0000:03:00.0x", "03:00.0", "", "2-1:1.0"})
    EXPECT_FALSE(sysfs::is_pci_address(no)) << no;
  EXPECT_EQ(sysfs::pci_address_in("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0"),
            "0000:01:00.0");
  EXPECT_EQ(sysfs::pci_address_in("/sys/devices/virtual/block/loop0"), "");
}

TEST_F(Pci, ReadsAFunction) {
  fake_.file(gpu_ + "/resource",
             "0x0000380000000000 0x0000382fffffffff 0x000000000014220c\n"
             "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
             "0x00000000f0000000 0x00000000f01fffff 0x000000000014220c\n");
  fake_.directory("/sys/kernel/iommu_groups/7");
  fake_.link(gpu_ + "/iommu_group", "/sys/kernel/iommu_groups/7");
  fake_.directory(gpu_ + "/physfn");
  auto device = sysfs::read_pci(fake_.tree(), "0000:04:00.0");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->vendor, 0x1002u);
  EXPECT_EQ(device->device, 0x74a1u);
  EXPECT_EQ(device->pci_class, 0x120000u);
  EXPECT_EQ(device->host_bridge, "pci0000:00");
  EXPECT_EQ(device->bridges, (std::vector<std::string>{"0000:00:01.0", "0000:01:00.0", "0000:02:01.0"}));
  EXPECT_EQ(device->largest_bar(), 192ull << 30);
  EXPECT_EQ(device->bars, (std::vector<uint64_t>{192ull << 30, 0, 2 << 20}));
  EXPECT_EQ(device->iommu_group, 7u);
  EXPECT_TRUE(device->is_virtual_function);
  EXPECT_FALSE(sysfs::read_pci(fake_.tree(), "0000:99:00.0"));
}

TEST_F(Pci, ASwitchLetsItsDevicesTalk) {
  PeerDistance d = between("0000:03:00.0", "0000:04:00.0");
  EXPECT_EQ(d.path, PeerPath::direct);
  EXPECT_EQ(d.hops, 4u);
  EXPECT_EQ(d.detail, "both below bridge 0000:01:00.0");
}

TEST_F(Pci, AcsSendsRequestsUpToAHostBridgeThatMustForward) {
  acs(kDownstream, 0x1c);
  PeerDistance d = between("0000:03:00.0", "0000:04:00.0");
  EXPECT_EQ(d.path, PeerPath::not_permitted);
  EXPECT_EQ(d.detail,
            "ACS redirects at 0000:02:01.0; host bridge pci0000:00 (8086:7d1b) is not on the kernel's list");
  acs(kDownstream, 0x01);  // source validation alone redirects nothing
  EXPECT_EQ(between("0000:03:00.0", "0000:04:00.0").path, PeerPath::direct);
}

TEST_F(Pci, WithoutRootIommuGroupsTellOfAcs) {
  fake_.directory("/sys/kernel/iommu_groups/7");
  fake_.directory("/sys/kernel/iommu_groups/8");
  fake_.link(gpu_ + "/iommu_group", "/sys/kernel/iommu_groups/7");
  const std::string disk = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
  fake_.link(disk + "/iommu_group", "/sys/kernel/iommu_groups/7");
  EXPECT_EQ(between("0000:03:00.0", "0000:04:00.0").path, PeerPath::direct);
  std::filesystem::remove(fake_.root() + disk + "/iommu_group");
  fake_.link(disk + "/iommu_group", "/sys/kernel/iommu_groups/8");
  PeerDistance d = between("0000:03:00.0", "0000:04:00.0");
  EXPECT_EQ(d.path, PeerPath::not_permitted);
  EXPECT_NE(d.detail.find("ACS seems to redirect"), std::string::npos) << d.detail;
}

TEST_F(Pci, RootPortsNeedAHostBridgeThatForwards) {
  EXPECT_EQ(between("0000:05:00.0", "0000:04:00.0").path, PeerPath::not_permitted);
  root("0x8086", "0x2020");
  PeerDistance d = between("0000:05:00.0", "0000:04:00.0");
  EXPECT_EQ(d.path, PeerPath::host_bridge);
  EXPECT_EQ(d.detail, "host bridge pci0000:00 (8086:2020)");
  EXPECT_EQ(d.hops, 6u);
}

TEST_F(Pci, SomeHostBridgesForwardOnlyToThemselves) {
  root("0x8086", "0x2f00");
  root("0x8086", "0x2f00", "pci0000:80");
  EXPECT_EQ(between("0000:05:00.0", "0000:04:00.0").path, PeerPath::host_bridge);
  EXPECT_EQ(between("0000:81:00.0", "0000:04:00.0").path, PeerPath::not_permitted);
  root("0x8086", "0x2020");
  root("0x8086", "0x09a2", "pci0000:80");
  EXPECT_EQ(between("0000:81:00.0", "0000:04:00.0").path, PeerPath::host_bridge);
}

TEST_F(Pci, TheFirstRootPortStandsForABusWithoutDevice00) {
  fake_.pci("pci0000:40", "0000:40:02.0", "0x8086", "0x2032", "0x060400");
  fake_.pci("pci0000:40/0000:40:02.0", "0000:41:00.0");
  fake_.pci("pci0000:40", "0000:40:03.0", "0x8086", "0x2033", "0x060400");
  fake_.pci("pci0000:40/0000:40:03.0", "0000:42:00.0");
  EXPECT_EQ(between("0000:41:00.0", "0000:42:00.0").path, PeerPath::host_bridge);
}

TEST_F(Pci, ZenForwardsBetweenAllRootPorts) {
  fake_.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n\n");
  EXPECT_EQ(between("0000:81:00.0", "0000:04:00.0").path, PeerPath::host_bridge);
  fake_.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 21\n\n");
  EXPECT_EQ(between("0000:81:00.0", "0000:04:00.0").path, PeerPath::not_permitted);
}

}  // namespace
