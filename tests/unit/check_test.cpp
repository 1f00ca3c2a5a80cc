// What ais-check finds out and how it says it, on made-up machines.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "check/report.h"
#include "fake_sysfs.h"

namespace {

using check::Answer;
using check::HipLibrary;
using check::SystemCheck;

const std::string kNodes = "/sys/class/kfd/kfd/topology/nodes/";

class Check : public testing::Test {
 protected:
  void SetUp() override {
    fake_.file("/sys/kernel/uevent_seqnum", "1\n");
    fake_.file("/proc/kallsyms", "0 T pci_p2pdma_distance_many\n0 t kfd_ais_rw_file\t[amdgpu]\n");
    fake_.file("/proc/self/mountinfo", "");
  }
  void gpu(uint64_t capability = 0x40) {
    const std::string path =
        fake_.pci("pci0000:00/0000:00:01.0", "0000:03:00.0", "0x1002", "0x74a1", "0x120000");
    fake_.directory("/sys/bus/pci/drivers/amdgpu");
    fake_.link(path + "/driver", "/sys/bus/pci/drivers/amdgpu");
    fake_.file(kNodes + "1/properties",
               "simd_count 1216\nvendor_id 4098\nlocation_id 768\ndomain 0\ncapability " +
                   std::to_string(capability) + "\n");
  }
  // A file system whose mount point is a directory with a file, on the disk under this test.
  void mounted(const std::string& target, const std::string& number, const std::string& type,
               const std::string& source, const std::string& options = "rw") {
    fake_.file(target + "/file", "x");
    mounts_ += std::to_string(++mount_) + " 1 " + number + " / " + target + " rw - " + type + " " + source +
               " " + options + "\n";
    fake_.file("/proc/self/mountinfo", mounts_);
  }
  SystemCheck system(bool library_with_ais = true) {
    return check::check_system(fake_.root(), {{"/opt/rocm/lib/libamdhip64.so.7", library_with_ais}});
  }
  fake::Sysfs fake_;
  std::string mounts_;
  int mount_ = 20;
};

TEST_F(Check, AMachineWithEverythingIsAllTrue) {
  gpu();
  fake_.nvme(0, "259:0");
  mounted("/data", "259:0", "xfs", "/dev/nvme0n1");
  SystemCheck s = system();
  EXPECT_TRUE(s.kernel_ok());
  EXPECT_TRUE(s.runtime_ok());
  EXPECT_TRUE(s.driver_ok());
  ASSERT_EQ(s.volumes.size(), 1u);
  if (s.volumes[0].direct_io == Answer::no) GTEST_SKIP() << "no O_DIRECT below the tests";
  EXPECT_TRUE(s.volume_ok());
  EXPECT_TRUE(s.all_ok());
  EXPECT_TRUE(s.advice().empty());
}

TEST_F(Check, AContainerWithoutAnythingIsAllFalseAndSaysWhatIsMissing) {
  SystemCheck s = check::check_system(fake_.root() + "/nowhere", {});
  EXPECT_FALSE(s.kernel_ok() || s.runtime_ok() || s.driver_ok() || s.volume_ok());
  EXPECT_FALSE(s.kernel.p2pdma.has_value());
  const std::string text = check::text_report(s, "Linux 6.8", false);
  EXPECT_NE(text.find("No block-backed volumes found.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("there is no AMD GPU"), std::string::npos) << text;
  EXPECT_NE(text.find("no HIP runtime was found"), std::string::npos) << text;
}

TEST_F(Check, PrintsTheTableAndTheSummaryOfRocmsTool) {
  gpu();
  fake_.nvme(0, "259:0");
  mounted("/data", "259:0", "xfs", "/dev/nvme0n1");
  fake_.mapped("dm-0", "254:0", {fake_.nvme(1, "259:1")}, "CRYPT-LUKS2-1-home", "home");
  mounted("/home", "254:0", "ext4", "/dev/mapper/home");
  SystemCheck s = system();
  s.volumes[0].direct_io = s.volumes[0].hipfile = Answer::yes;  // whatever the tests run on
  s.volumes[1].direct_io = Answer::unverified;
  EXPECT_EQ(check::text_report(s, "Linux 6.8.0", true),
            "\nLinux 6.8.0\n\n"
            "Found these HIP libraries:\n\t/opt/rocm/lib/libamdhip64.so.7 (AIS supported)\n\n"
            "Mounted volumes:\n"
            "MOUNTPOINT  FSTYPE  DEVICE            BACKING  O_DIRECT    HIPFILE\n"
            "/data       xfs     /dev/nvme0n1      nvme     yes         yes\n"
            "/home       ext4    /dev/mapper/home  crypt    unverified  no\n"
            "\nAIS support in:\n"
            "\tKernel P2PDMA support   : True\n"
            "\tHIP runtime             : True\n"
            "\tamdgpu                  : True\n"
            "\thipFile-capable volume  : True\n"
            "\nGPU 0000:03:00.0, AIS\n"
            "\nWhat keeps data from the direct path:\n"
            "\t/home: the CPU encrypts the volume: dm-0 (dm-crypt LUKS2 home); an unencrypted volume is "
            "needed, or a "
            "self-encrypting drive\n");
}

TEST_F(Check, SaysWhatIoUringCanDoIfItWasTried) {
  SystemCheck s = system();
  EXPECT_EQ(check::text_report(s, "Linux 7.3", true).find("dma-buf"), std::string::npos);
  s.dmabuf = check::DmabufAnswer{check::DmabufStep::api, EINVAL, false};
  EXPECT_NE(check::text_report(s, "Linux 7.3", true)
                .find("\nio_uring with registered dma-bufs: not available: this kernel does not have it"),
            std::string::npos);
  EXPECT_EQ(check::text_report(s, "Linux 7.3", false).find("dma-buf"), std::string::npos);
  auto json = nlohmann::json::parse(check::json_report(s, "Linux 7.3"));
  EXPECT_EQ(json["io_uring_dmabuf"]["available"], false);
  s.dmabuf = check::DmabufAnswer{};
  json = nlohmann::json::parse(check::json_report(s, "Linux 7.4"));
  EXPECT_EQ(json["io_uring_dmabuf"]["available"], true);
  EXPECT_EQ(json["io_uring_dmabuf"]["tested"], false);
}

TEST_F(Check, EachVolumeIsListedOnceAndOnlyThoseOnBlockDevices) {
  fake_.nvme(0, "259:0");
  mounted("/data", "259:0", "xfs", "/dev/nvme0n1");
  mounted("/etc/hosts", "259:0", "xfs", "/dev/nvme0n1");  // as container engines bind it
  mounted("/tmp", "0:40", "tmpfs", "tmpfs");
  mounted("/merged", "0:41", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/u,workdir=/w");
  mounted("/unseen", "8:7", "ext4", "/dev/sda7");  // sysfs does not show it here
  SystemCheck s = system();
  ASSERT_EQ(s.volumes.size(), 2u);
  EXPECT_EQ(s.volumes[0].mountpoint, "/data");
  EXPECT_EQ(s.volumes[1].mountpoint, "/unseen");
  EXPECT_EQ(s.volumes[1].backing, "?");
}

TEST_F(Check, NamesTheBackingOfEachVolumeAndWhetherItCanDoIt) {
  const std::string a = fake_.nvme(0, "259:0"), b = fake_.nvme(1, "259:1");
  fake_.partition(a, "nvme0n1p1", "259:4");
  fake_.mapped("dm-0", "254:0", {a, b}, "LVM-1", "vg-lv");
  const std::string pool = fake_.mapped("dm-1", "254:1", {a}, "LVM-1-tpool", "vg-pool-tpool");
  fake_.mapped("dm-2", "254:2", {pool}, "LVM-1", "vg-thin");
  fake_.mapped("dm-3", "254:3", {a}, "mpath-1", "mpatha");
  fake_.file(fake_.over("md0", "9:0", {a, b}) + "/md/level", "raid1\n");
  fake_.over("loop0", "7:0", {});
  mounted("/part", "259:4", "xfs", "/dev/nvme0n1p1");
  mounted("/lvm", "254:0", "xfs", "/dev/mapper/vg-lv");
  mounted("/thin", "254:2", "xfs", "/dev/mapper/vg-thin");
  mounted("/mpath", "254:3", "xfs", "/dev/mapper/mpatha");
  mounted("/md", "9:0", "xfs", "/dev/md0");
  mounted("/loop", "7:0", "ext4", "/dev/loop0");
  mounted("/journal", "259:1", "ext4", "/dev/nvme1n1", "rw,data=journal");
  std::map<std::string, check::VolumeCheck> volumes;
  for (const auto& v : system().volumes) volumes[v.mountpoint] = v;
  if (volumes["/part"].direct_io == Answer::no) GTEST_SKIP() << "no O_DIRECT below the tests";
  EXPECT_EQ(volumes["/part"].backing, "nvme");
  EXPECT_EQ(volumes["/part"].hipfile, Answer::yes);
  EXPECT_EQ(volumes["/lvm"].backing, "lvm");
  EXPECT_EQ(volumes["/lvm"].hipfile, Answer::yes);
  EXPECT_EQ(volumes["/thin"].hipfile, Answer::unverified);
  EXPECT_EQ(volumes["/mpath"].backing, "mpath");
  EXPECT_EQ(volumes["/md"].backing, "md");
  EXPECT_EQ(volumes["/loop"].backing, "loop");
  for (const char* no : {"/mpath", "/md", "/loop", "/journal"})
    EXPECT_EQ(volumes[no].hipfile, Answer::no) << no;
}

TEST_F(Check, JsonHasTheSameAndTheNumbersOfReasons) {
  gpu(0);
  fake_.over("loop0", "7:0", {});
  mounted("/loop", "7:0", "ext4", "/dev/loop0");
  auto json = nlohmann::json::parse(check::json_report(system(false), "Linux 6.8"));
  EXPECT_EQ(json["ais"], false);
  EXPECT_EQ(json["kernel_p2pdma"], true);
  EXPECT_EQ(json["hip_runtime"], false);
  EXPECT_EQ(json["gpus"][0]["address"], "0000:03:00.0");
  EXPECT_EQ(json["gpus"][0]["reason"], 30);
  EXPECT_EQ(json["volumes"][0]["objections"][0]["reason"], 24);
  EXPECT_EQ(json["volumes"][0]["hipfile"], "no");
  EXPECT_GE(json["advice"].size(), 3u);
  auto nothing =
      nlohmann::json::parse(check::json_report(check::check_system(fake_.root() + "/nowhere", {}), ""));
  EXPECT_TRUE(nothing["amdgpu"].is_null());
}

TEST_F(Check, JudgesFilesForEachGpu) {
  char name[] = "/var/tmp/check_XXXXXX";
  posix::Fd fd(mkstemp(name));
  ASSERT_EQ(ftruncate(fd.get(), 1 << 20), 0);
  SystemCheck s;
  check::FileCheck without = check::check_file(name, s);
  ASSERT_EQ(without.verdicts.size(), 1u);
  EXPECT_FALSE(without.ok());
  EXPECT_EQ(without.verdicts[0].plan.reason, engine::Reason::no_runtime_ais);
  s.libraries = {{"lib", true}};
  EXPECT_EQ(check::check_file(name, s).verdicts[0].plan.reason, engine::Reason::no_gpu);
  s.gpus.resize(2);
  s.gpus[0].address = "0000:03:00.0";
  s.gpus[0].ais = false;
  s.gpus[1].address = "0000:83:00.0";
  s.gpus[1].ais = true;
  check::FileCheck both = check::check_file(name, s);
  ASSERT_EQ(both.verdicts.size(), 2u);
  EXPECT_EQ(both.verdicts[0].plan.reason, engine::Reason::gpu_without_ais);
  EXPECT_NE(both.verdicts[1].plan.reason, engine::Reason::gpu_without_ais);
  ASSERT_TRUE(both.extents);
  EXPECT_EQ(both.extents->hole_bytes, 1u << 20);
  const std::string text = check::text_report(both);
  EXPECT_EQ(text.rfind(std::string(name) + "\nroute: ", 0), 0u) << text;
  EXPECT_NE(text.find("extents: 1048576 bytes holes"), std::string::npos) << text;
  auto json =
      nlohmann::json::parse(check::json_report(std::vector{both, check::check_file("/nowhere/at/all", s)}));
  EXPECT_EQ(json["files"][0]["verdicts"].size(), 2u);
  EXPECT_EQ(json["files"][1]["peer"], false);
  EXPECT_EQ(json["files"][1]["problem"], "No such file or directory");
  unlink(name);
  check::FileCheck directory = check::check_file("/var/tmp", s);
  EXPECT_EQ(directory.verdicts.size(), 2u);
}

TEST_F(Check, AFileThatMayNotBeReadIsJudgedAllTheSame) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  char name[] = "/var/tmp/check_XXXXXX";
  posix::Fd fd(mkstemp(name));
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(12345) < 0 || setuid(12345) < 0) _exit(2);
    check::FileCheck file = check::check_file(name, SystemCheck());
    _exit(file.problem.empty() && file.verdicts.size() == 1 && !file.verdicts[0].volume.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  unlink(name);
  EXPECT_EQ(status, 0);
}

TEST(HipLibraries, AreExaminedInAProcessOfTheirOwn) {
  const std::string directory = HIP_LIBRARIES;
  auto libraries = check::examine_hip_libraries(
      {directory + "/with/libamdhip64.so.7", directory + "/without/libamdhip64.so.7",
       directory + "/crashing/libamdhip64.so.7", "/nowhere/libamdhip64.so.7", SOFTWARE_RUNTIME});
  ASSERT_EQ(libraries.size(), 2u);
  EXPECT_TRUE(libraries[0].ais);
  EXPECT_FALSE(libraries[1].ais);
}

TEST(HipLibraries, AreFoundInTheLoadersPathOnceEach) {
  const std::string directory = std::string(HIP_LIBRARIES) + "/with";
  setenv("LD_LIBRARY_PATH", (directory + "::" + directory + "/../with").c_str(), 1);
  auto found = check::find_hip_libraries();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0], directory + "/libamdhip64.so.7");
  EXPECT_EQ(std::count(found.begin(), found.end(), found[0]), 1);
  unsetenv("LD_LIBRARY_PATH");
}

}  // namespace
