#include "engine/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/device_pages.h"

namespace {

using engine::Objection;
using engine::Policy;
using engine::Reason;
using engine::Route;
using storage::BlockDevice;
using storage::BlockKind;

BlockDevice device(BlockKind kind, std::vector<BlockDevice> below = {}, const std::string& detail = "") {
  BlockDevice d;
  d.name = "dev";
  d.kind = kind;
  d.detail = detail;
  if (kind == BlockKind::nvme) d.pci_address = "0000:01:00.0";
  d.below = std::move(below);
  return d;
}
BlockDevice nvme() { return device(BlockKind::nvme); }

storage::FileFacts file_on(BlockDevice top, const std::string& type = "xfs") {
  auto volume = std::make_shared<storage::Volume>();
  volume->mount.type = type;
  volume->devices.push_back(std::move(top));
  storage::FileFacts file;
  file.kind = storage::FileKind::regular;
  file.file_system = type;
  file.volume = volume;
  file.offset_align = file.memory_align = 512;
  return file;
}

storage::FileFacts with_mode(storage::DataMode mode) {
  auto volume = std::make_shared<storage::Volume>();
  volume->mount.type = "ext4";
  volume->mount.data_mode = mode;
  storage::FileFacts file = file_on(nvme(), "ext4");
  file.volume = volume;
  return file;
}

gpu::DeviceFacts good_gpu() {
  gpu::DeviceFacts d;
  d.address = "0000:03:00.0";
  d.ais = true;
  return d;
}

struct StackCase {
  const char* name;
  BlockDevice top;
  Reason reason;
};
class Stack : public testing::TestWithParam<StackCase> {};

TEST_P(Stack, HasItsReason) {
  EXPECT_EQ(engine::refuse_file(file_on(GetParam().top), Policy()), GetParam().reason);
  // A stand-in runtime moves the data itself, and who asks for it tries in any case.
  EXPECT_EQ(engine::refuse_file(file_on(GetParam().top), {false, false}), Reason::none);
  EXPECT_EQ(engine::refuse_file(file_on(GetParam().top), {true, true}), Reason::none);
}

std::vector<BlockDevice> disks(size_t n) { return std::vector<BlockDevice>(n, nvme()); }
BlockDevice layers(unsigned n) { return n == 0 ? nvme() : device(BlockKind::linear, {layers(n - 1)}); }

INSTANTIATE_TEST_SUITE_P(
    All, Stack,
    testing::Values(
        StackCase{"nvme", nvme(), Reason::none},
        StackCase{"partition", device(BlockKind::partition, {nvme()}), Reason::none},
        StackCase{"lvm_linear", device(BlockKind::linear, {nvme()}), Reason::none},
        StackCase{"lvm_striped_over_16", device(BlockKind::striped, disks(16)), Reason::none},
        StackCase{"lvm_striped_over_17", device(BlockKind::striped, disks(17)), Reason::too_many_devices},
        StackCase{"four_layers", layers(4), Reason::none},
        StackCase{"five_layers", layers(5), Reason::too_many_devices},
        StackCase{"lvm_raid", device(BlockKind::lvm_raid, {layers(1), layers(1)}), Reason::none},
        StackCase{"thin", device(BlockKind::thin, {layers(1)}), Reason::none},  // perhaps
        StackCase{"unknown_target", device(BlockKind::device_mapper, {nvme()}), Reason::none},
        StackCase{"lvm_on_sata", device(BlockKind::linear, {nvme(), device(BlockKind::ata)}),
                  Reason::not_nvme},
        StackCase{"crypt", device(BlockKind::crypt, {nvme()}), Reason::encrypted_volume},
        StackCase{"crypt_below_lvm", device(BlockKind::linear, {device(BlockKind::crypt, {nvme()})}),
                  Reason::encrypted_volume},
        StackCase{"integrity", device(BlockKind::checked, {nvme()}), Reason::checked_volume},
        StackCase{"md", device(BlockKind::md, {nvme(), nvme()}, "raid0"), Reason::software_raid},
        StackCase{"nvme_multipath", device(BlockKind::nvme_multipath, {nvme()}), Reason::multipath},
        StackCase{"dm_multipath", device(BlockKind::dm_multipath, {device(BlockKind::scsi)}),
                  Reason::multipath},
        StackCase{"loop", device(BlockKind::loop), Reason::loop_device},
        StackCase{"zram", device(BlockKind::memory), Reason::memory_disk},
        StackCase{"nvme_tcp", device(BlockKind::nvme_fabrics, {}, "tcp traddr=1.2.3.4"),
                  Reason::network_storage},
        StackCase{"nvme_rdma", device(BlockKind::nvme_fabrics, {}, "rdma traddr=1.2.3.4"), Reason::none},
        StackCase{"iscsi", device(BlockKind::network), Reason::network_storage},
        StackCase{"virtio", device(BlockKind::virtio), Reason::not_nvme},
        StackCase{"usb", device(BlockKind::usb), Reason::not_nvme}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Verdict, FileSystemsOtherThanXfsAndOrderedExt4AreRefused) {
  for (const char* type : {"btrfs", "overlay", "tmpfs", "nfs4", "fuse.hipfile-fuse", "zfs", ""})
    EXPECT_EQ(engine::refuse_file(file_on(nvme(), type), Policy()), Reason::file_system) << type;
  using storage::DataMode;
  EXPECT_EQ(engine::refuse_file(with_mode(DataMode::ordered), Policy()), Reason::none);
  for (DataMode mode : {DataMode::writeback, DataMode::journal, DataMode::unknown})
    EXPECT_EQ(engine::refuse_file(with_mode(mode), Policy()), Reason::journaled_data);
}

TEST(Verdict, ABlockDeviceNeedsNoFileSystem) {
  auto file = file_on(nvme(), "");
  file.kind = storage::FileKind::block;
  EXPECT_EQ(engine::refuse_file(file, Policy()), Reason::none);
}

TEST(Verdict, WhatTheFileItselfIsComesFirstAndCannotBeOverruled) {
  struct {
    bool storage::FileFacts::*flag;
    Reason reason;
  } const cases[] = {{&storage::FileFacts::encrypted, Reason::encrypted_file},
                     {&storage::FileFacts::verity, Reason::verified_file},
                     {&storage::FileFacts::compressed, Reason::compressed_file},
                     {&storage::FileFacts::inline_data, Reason::inline_data},
                     {&storage::FileFacts::journaled, Reason::journaled_data}};
  for (const auto& c : cases) {
    auto file = file_on(device(BlockKind::loop), "btrfs");
    file.*c.flag = true;
    EXPECT_EQ(engine::refuse_file(file, Policy()), c.reason);
    EXPECT_EQ(engine::refuse_file(file, {true, true}), c.reason);
  }
}

TEST(Verdict, AGpuThatHasAisIsTakenWhateverElseIsKnown) {
  gpu::DeviceFacts d = good_gpu();
  d.virtual_function = d.ais_disabled = true;
  EXPECT_EQ(engine::refuse_device(d), Reason::none);
}

TEST(Verdict, AGpuThatIsNotToBeSeenIsTried) {
  EXPECT_EQ(engine::refuse_device(gpu::DeviceFacts()), Reason::none);
}

TEST(Verdict, TheReasonWhyAGpuHasNoAisIsTheOneThatExplainsIt) {
  struct {
    void (*change)(gpu::DeviceFacts&);
    Reason reason;
  } const cases[] = {{[](gpu::DeviceFacts&) {}, Reason::gpu_without_ais},
                     {[](gpu::DeviceFacts& d) { d.virtual_function = true; }, Reason::virtual_function},
                     {[](gpu::DeviceFacts& d) { d.integrated = true; }, Reason::integrated_gpu},
                     {[](gpu::DeviceFacts& d) { d.xgmi_to_cpu = true; }, Reason::integrated_gpu},
                     {[](gpu::DeviceFacts& d) { d.ais_disabled = true; }, Reason::ais_disabled},
                     {[](gpu::DeviceFacts& d) { d.kernel_p2pdma = false; }, Reason::kernel_without_p2pdma},
                     {[](gpu::DeviceFacts& d) {
                        d.vram_bytes = 16ull << 30;
                        d.visible_bytes = 256 << 20;
                      },
                      Reason::small_bar}};
  for (std::optional<bool> listed : {std::optional<bool>(false), std::optional<bool>()})
    for (const auto& c : cases) {
      gpu::DeviceFacts d = good_gpu();
      d.ais = listed;
      c.change(d);
      EXPECT_EQ(engine::refuse_device(d), c.reason);
    }
}

engine::Situation situation(const storage::FileFacts& file, const gpu::DeviceFacts* gpu) {
  engine::Situation s;
  s.length = 16 << 20;
  s.address = 2 << 20;
  s.file = file.kind;
  s.offset_align = file.offset_align;
  s.memory_align = file.memory_align;
  s.runtime_has_ais = true;
  s.file_objection = engine::refuse_file(file, Policy());
  if (gpu) s.device_objection = engine::refuse_device(*gpu);
  return s;
}

TEST(Verdict, NamesTheLayerAndWhatWouldHaveToChange) {
  auto file = file_on(device(BlockKind::crypt, {nvme()}, "LUKS2 home"));
  const auto gpu = good_gpu();
  engine::Verdict v = engine::judge(situation(file, &gpu), file, &gpu, {}, Policy());
  EXPECT_EQ(v.plan.reason, Reason::encrypted_volume);
  ASSERT_FALSE(v.routes.empty());
  EXPECT_EQ(v.routes[0].route, Route::peer);
  EXPECT_EQ(v.routes[0].why, "the CPU encrypts the volume: dev (dm-crypt LUKS2 home)");
  EXPECT_NE(v.routes[0].advice, "");
  EXPECT_EQ(v.routes.back().route, v.plan.route());
  EXPECT_EQ(v.routes.back().reason, Reason::none);
  const std::string text = v.text();
  EXPECT_NE(text.find("route: staged\n"), std::string::npos) << text;
  EXPECT_NE(text.find("peer: the CPU encrypts the volume: dev (dm-crypt LUKS2 home); "), std::string::npos)
      << text;
  EXPECT_NE(text.find("volume: regular file"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU 0000:03:00.0"), std::string::npos) << text;
}

TEST(Verdict, ListsEverythingThatStandsInTheWayAndNotOnlyTheFirst) {
  auto file = file_on(device(BlockKind::linear, {device(BlockKind::crypt, {nvme()}), device(BlockKind::ata)}),
                      "btrfs");
  gpu::DeviceFacts gpu = good_gpu();
  gpu.ais = false;
  gpu.virtual_function = true;
  std::vector<Reason> reasons;
  for (const auto& o : engine::objections(file, &gpu, {}, Policy())) reasons.push_back(o.reason);
  EXPECT_EQ(reasons, (std::vector<Reason>{Reason::virtual_function, Reason::file_system,
                                          Reason::encrypted_volume, Reason::not_nvme}));
  engine::Verdict v = engine::judge(situation(file, &gpu), file, &gpu, {}, Policy());
  EXPECT_EQ(v.plan.reason, Reason::virtual_function);
  EXPECT_NE(v.text().find("also against peer:\n  the file system"), std::string::npos) << v.text();
}

TEST(Verdict, WhatOnlyTheDriverDecidesIsADoubtAndExplainsAFailure) {
  auto file = file_on(nvme());
  const auto gpu = good_gpu();
  const std::vector<engine::DiskPath> paths{
      {"nvme0n1",
       {sysfs::PeerPath::not_permitted, 4,
        "host bridge pci0000:00 (8086:7d1b) is not on the kernel's list"}}};
  auto s = situation(file, &gpu);
  engine::Verdict v = engine::judge(s, file, &gpu, paths, Policy());
  EXPECT_EQ(v.plan.route(), Route::peer);
  ASSERT_EQ(v.peer.size(), 1u);
  EXPECT_FALSE(v.peer[0].certain);
  EXPECT_NE(v.text().find("perhaps, the kernel permits no DMA"), std::string::npos) << v.text();
  s.peer_failed_before = true;
  v = engine::judge(s, file, &gpu, paths, Policy());
  EXPECT_EQ(v.plan.reason, Reason::failed_before);
  EXPECT_NE(v.routes[0].why.find("probably because the kernel permits no DMA"), std::string::npos)
      << v.routes[0].why;
}

TEST(Verdict, ThinVolumesAreADoubtNamedOnce) {
  auto file = file_on(device(BlockKind::thin, {device(BlockKind::thin, {layers(1)})}));
  auto all = engine::objections(file, nullptr, {}, Policy());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].reason, Reason::device_mapper);
  EXPECT_FALSE(all[0].certain);
}

TEST(Verdict, TheBestRouteNeedsNoExplanation) {
  auto file = file_on(nvme());
  const auto gpu = good_gpu();
  engine::Verdict v = engine::judge(situation(file, &gpu), file, &gpu, {}, Policy());
  ASSERT_EQ(v.routes.size(), 1u);
  EXPECT_EQ(v.routes[0].why, "taken");
  EXPECT_TRUE(v.peer.empty());
}

// Planner and explanation cannot disagree: the first certain objection is what the planner refuses by.
TEST(Verdict, TheFirstCertainObjectionIsThePlannersReason) {
  const BlockDevice tops[] = {nvme(), device(BlockKind::crypt, {nvme()}), device(BlockKind::loop),
                              device(BlockKind::thin, {device(BlockKind::md, {nvme()})})};
  for (const char* type : {"xfs", "btrfs"})
    for (const auto& top : tops)
      for (bool ais : {true, false})
        for (bool encrypted : {true, false}) {
          auto file = file_on(top, type);
          file.encrypted = encrypted;
          auto gpu = good_gpu();
          gpu.ais = ais;
          engine::Verdict v = engine::judge(situation(file, &gpu), file, &gpu, {}, Policy());
          auto certain =
              std::find_if(v.peer.begin(), v.peer.end(), [](const Objection& o) { return o.certain; });
          EXPECT_EQ(v.plan.reason, certain == v.peer.end() ? Reason::none : certain->reason);
        }
}

struct PagesCase {
  const char* name;
  BlockDevice top;
  std::vector<Reason> certain, doubts;
};
class DevicePages : public testing::TestWithParam<PagesCase> {};

// As seen with Linux 7.3: other layers than those that AMD's driver takes.
TEST_P(DevicePages, PassOrHaveAReason) {
  std::vector<Reason> certain, doubts;
  for (const auto& o : engine::objections_to_device_pages(file_on(GetParam().top)))
    (o.certain ? certain : doubts).push_back(o.reason);
  EXPECT_EQ(certain, GetParam().certain);
  EXPECT_EQ(doubts, GetParam().doubts);
}

INSTANTIATE_TEST_SUITE_P(
    All, DevicePages,
    testing::Values(
        PagesCase{"nvme", nvme(), {}, {}},
        PagesCase{"partition", device(BlockKind::partition, {nvme()}), {}, {}},
        PagesCase{"lvm_linear", device(BlockKind::linear, {nvme()}), {Reason::device_mapper}, {}},
        PagesCase{"lvm_raid", device(BlockKind::lvm_raid, {layers(1)}), {Reason::device_mapper}, {}},
        PagesCase{"thin", device(BlockKind::thin, {layers(1)}), {Reason::device_mapper}, {}},
        PagesCase{"delay", device(BlockKind::device_mapper, {nvme()}), {Reason::device_mapper}, {}},
        PagesCase{"crypt", device(BlockKind::crypt, {nvme()}), {Reason::encrypted_volume}, {}},
        PagesCase{"md0", device(BlockKind::md, disks(2), "raid0"), {}, {Reason::software_raid}},
        PagesCase{"md1", device(BlockKind::md, disks(2), "raid1"), {}, {Reason::software_raid}},
        PagesCase{"md5", device(BlockKind::md, disks(3), "raid5"), {Reason::software_raid}, {}},
        PagesCase{"md1_on_sata",
                  device(BlockKind::md, {nvme(), device(BlockKind::ata)}, "raid1"),
                  {Reason::not_nvme},
                  {Reason::software_raid}},
        PagesCase{"nvme_multipath", device(BlockKind::nvme_multipath, {nvme()}), {}, {Reason::multipath}},
        PagesCase{"dm_multipath", device(BlockKind::dm_multipath, {nvme()}), {Reason::multipath}, {}},
        PagesCase{"loop", device(BlockKind::loop), {Reason::loop_device}, {}},
        PagesCase{"zram", device(BlockKind::memory), {Reason::memory_disk}, {}},
        PagesCase{"nvme_tcp", device(BlockKind::nvme_fabrics, {}, "tcp"), {Reason::network_storage}, {}},
        PagesCase{"nvme_rdma", device(BlockKind::nvme_fabrics, {}, "rdma"), {}, {}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Verdict, FileSystemsMatterToPagesOfADeviceByTheirDirectIoAlone) {
  for (const char* type : {"btrfs", "ext4", "xfs"})
    EXPECT_TRUE(engine::objections_to_device_pages(file_on(nvme(), type)).empty()) << type;
  auto tmpfs = file_on(nvme(), "tmpfs");
  tmpfs.offset_align = 0;
  ASSERT_EQ(engine::objections_to_device_pages(tmpfs).size(), 1u);
  EXPECT_EQ(engine::objections_to_device_pages(tmpfs)[0].reason, Reason::no_direct_io);
  auto nfs = file_on(nvme(), "nfs4");
  ASSERT_EQ(engine::objections_to_device_pages(nfs).size(), 1u);
  EXPECT_EQ(engine::objections_to_device_pages(nfs)[0].reason, Reason::network_storage);
  auto overlay = file_on(nvme(), "overlay");
  auto volume = std::make_shared<storage::Volume>(*overlay.volume);
  volume->devices.clear();
  volume->layers = {{"/upper", file_on(device(BlockKind::crypt, {nvme()})).volume},
                    {"/out/of/sight", nullptr}};
  overlay.volume = volume;
  ASSERT_EQ(engine::objections_to_device_pages(overlay).size(), 1u);
  EXPECT_EQ(engine::objections_to_device_pages(overlay)[0].reason, Reason::encrypted_volume);
}

TEST(Verdict, SaysWhyPagesOfADeviceWereRefused) {
  auto file = file_on(device(BlockKind::linear, {nvme()}, "vg-home"));
  auto s = situation(file, nullptr);
  s.memory_is_pages = s.pages_failed_before = true;
  s.memory = gpu::MemoryKind::peer;
  engine::Verdict v = engine::judge(s, file, nullptr, {}, Policy());
  ASSERT_GE(v.routes.size(), 2u);
  EXPECT_EQ(v.routes[1].route, Route::pages);
  EXPECT_EQ(v.routes[1].why,
            "it failed before on this file; with pages of a PCI device because the volume has a "
            "device-mapper layer "
            "that may not pass device memory on: dev (LVM linear vg-home)");
  EXPECT_NE(v.text().find("against pages of a PCI device:\n  the volume has a device-mapper"),
            std::string::npos)
      << v.text();
}

TEST(Reasons, AllHaveATextOfTheirOwn) {
  std::set<std::string> texts;
  for (uint32_t r = 0; r < engine::kReasons; r++) {
    const std::string text = engine::text(static_cast<Reason>(r));
    EXPECT_NE(text, "unknown") << r;
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
  EXPECT_STREQ(engine::text(static_cast<Reason>(engine::kReasons)), "unknown");
}

}  // namespace
