#include "gpu/device_facts.h"

#include "fake_sysfs.h"

namespace {

using gpu::DeviceFacts;

const std::string kNodes = "/sys/class/kfd/kfd/topology/nodes/";

class Devices : public testing::Test {
 protected:
  void SetUp() override {
    fake_.file(kNodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\ncapability 0\n");
    fake_.file("/proc/kallsyms",
               "0000000000000000 T pci_p2pdma_distance_many\n0000000000000000 t kfd_ais_rw_file\t[amdgpu]\n");
  }
  // A GPU at 0000:<bus>:00.0 as node `node` of KFD.
  std::string gpu(unsigned node, unsigned bus, uint64_t capability, const std::string& id = "0x74a1") {
    char address[32];
    snprintf(address, sizeof address, "0000:%02x:00.0", bus);
    const std::string path = fake_.pci("pci0000:00/0000:00:01.0", address, "0x1002", id, "0x120000");
    fake_.link(path + "/driver", "/sys/bus/pci/drivers/amdgpu");
    fake_.directory("/sys/bus/pci/drivers/amdgpu");
    fake_.file(path + "/mem_info_vram_total", "206141652992\n");
    fake_.file(path + "/mem_info_vis_vram_total", "206141652992\n");
    fake_.file(kNodes + std::to_string(node) + "/properties",
               "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\ngfx_target_version 90402\nlocation_id " +
                   std::to_string(bus << 8) + "\ndomain 0\ncapability " + std::to_string(capability) + "\n");
    return path;
  }
  std::vector<DeviceFacts> read() { return gpu::read_devices(fake_.tree()); }
  fake::Sysfs fake_;
};

constexpr uint64_t kWith = 0x2f4a8e80 | 0x40, kWithout = 0x2f4a8e80;

TEST_F(Devices, ThereAreNoneWithoutAmdgpu) {
  EXPECT_TRUE(read().empty());
  fake_.pci("pci0000:00", "0000:00:03.0", "0x10de", "0x2335", "0x030200");
  EXPECT_TRUE(read().empty());
}

TEST_F(Devices, ReadsTheAisBitOfEachGpu) {
  gpu(1, 0x03, kWith);
  gpu(2, 0x83, kWithout);
  auto all = read();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].address, "0000:03:00.0");
  EXPECT_EQ(all[0].name, "gfx942");
  EXPECT_EQ(all[0].ais, true);
  EXPECT_EQ(all[1].address, "0000:83:00.0");
  EXPECT_EQ(all[1].ais, false);
  EXPECT_FALSE(all[0].small_bar());
  ASSERT_TRUE(all[0].pci);
  EXPECT_EQ(all[0].pci->bridges, std::vector<std::string>{"0000:00:01.0"});
}

TEST_F(Devices, SeesHowMuchOfTheMemoryPciShows) {
  const std::string path = gpu(1, 3, kWithout);
  fake_.file(path + "/mem_info_vis_vram_total", "268435456\n");
  EXPECT_TRUE(read()[0].small_bar());
  // An older driver says nothing; the region's size does.
  std::filesystem::remove(fake_.root() + path + "/mem_info_vis_vram_total");
  fake_.file(path + "/resource", "0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n");
  EXPECT_EQ(read()[0].visible_bytes, 256u << 20);
  // And KFD's heaps do.
  std::filesystem::remove(fake_.root() + path + "/resource");
  std::filesystem::remove(fake_.root() + path + "/mem_info_vram_total");
  fake_.file(kNodes + "1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 268435456\n");
  fake_.file(kNodes + "1/mem_banks/1/properties", "heap_type 2\nsize_in_bytes 8321499136\n");
  EXPECT_TRUE(read()[0].small_bar());
  EXPECT_EQ(read()[0].vram_bytes, 268435456u + 8321499136u);
}

TEST_F(Devices, KnowsVirtualFunctionsOfHostAndGuest) {
  const std::string path = gpu(1, 3, kWithout);
  EXPECT_FALSE(read()[0].virtual_function);
  fake_.directory(path + "/physfn");
  EXPECT_TRUE(read()[0].virtual_function);
  gpu(2, 4, kWithout, "0x74b5");  // MI300X VF, as a guest sees it
  EXPECT_TRUE(read()[1].virtual_function);
}

TEST_F(Devices, KnowsMemoryThatIsTheCpus) {
  gpu(1, 3, kWithout);
  fake_.file(kNodes + "1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\n");
  EXPECT_FALSE(read()[0].xgmi_to_cpu);
  fake_.file(kNodes + "1/io_links/1/properties", "type 11\nnode_from 1\nnode_to 1\n");
  EXPECT_FALSE(read()[0].xgmi_to_cpu);  // between GPUs
  fake_.file(kNodes + "1/io_links/1/properties", "type 11\nnode_from 1\nnode_to 0\n");
  EXPECT_TRUE(read()[0].xgmi_to_cpu);
  fake_.file(kNodes + "1/properties", "cpu_cores_count 16\nsimd_count 32\nvendor_id 4098\nlocation_id 768\n");
  EXPECT_TRUE(read()[0].integrated);
}

TEST_F(Devices, ListsGpusThatKfdDoesNot) {
  const std::string path = fake_.pci("pci0000:00", "0000:83:00.0", "0x1002", "0x74b5", "0x120000");
  fake_.directory("/sys/bus/pci/drivers/amdgpu");
  fake_.link(path + "/driver", "/sys/bus/pci/drivers/amdgpu");
  auto all = read();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].ais);
  EXPECT_TRUE(all[0].virtual_function);
}

TEST_F(Devices, ReadsTheParameterThatSwitchesAisOff) {
  gpu(1, 3, kWithout);
  EXPECT_FALSE(read()[0].ais_disabled);
  fake_.file("/sys/module/amdgpu/parameters/ais_disabled", "0\n");
  EXPECT_FALSE(read()[0].ais_disabled);
  for (const char* yes : {"1\n", "Y\n"}) {
    fake_.file("/sys/module/amdgpu/parameters/ais_disabled", yes);
    EXPECT_TRUE(read()[0].ais_disabled);
  }
}

TEST_F(Devices, ProbesTheKernelInsteadOfItsConfiguration) {
  auto kernel = [this] { return gpu::read_kernel(fake_.tree()); };
  EXPECT_EQ(kernel().p2pdma, true);
  EXPECT_EQ(kernel().ais, true);
  fake_.file("/proc/kallsyms", "0000000000000000 T pci_read_config_word\n");
  EXPECT_EQ(kernel().p2pdma, false);
  EXPECT_EQ(kernel().ais, false);
  fake_.file("/proc/kallsyms", "");
  EXPECT_FALSE(kernel().p2pdma);
  EXPECT_FALSE(kernel().ais);
  fake_.directory(fake_.pci("pci0000:00", "0000:01:00.0") + "/p2pmem");
  EXPECT_EQ(kernel().p2pdma, true);
  EXPECT_FALSE(kernel().ais);
  gpu(1, 3, kWith);
  EXPECT_EQ(kernel().ais, true);
}

hip::Error attribute(int* value, int which, int device) {
  *value = which == hip::kAttributePciBusId ? 3 + device : 0;
  return hip::kSuccess;
}
hip::Error device_name(char* name, int length, hip::Device) {
  snprintf(name, static_cast<size_t>(length), "AMD Instinct MI300X VF");
  return hip::kSuccess;
}

TEST_F(Devices, FindsTheFunctionOfAHipDeviceAndWhatItsNameTells) {
  gpu(1, 3, kWithout);
  gpu::HipTable table;
  table.hipDeviceGetAttribute = attribute;
  table.hipDeviceGetName = device_name;
  table.hipGetLastError = [] { return hip::kSuccess; };
  gpu::Runtime amd(table, gpu::RuntimeKind::amd, "fake", 70200000, false);
  auto facts = gpu::device_facts(amd, 0, read());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->address, "0000:03:00.0");
  EXPECT_TRUE(facts->virtual_function);
  EXPECT_EQ(gpu::device_facts(amd, 1, read())->address, "");  // not to be seen here
  gpu::Runtime software(table, gpu::RuntimeKind::software, "fake", 60000000, true);
  EXPECT_FALSE(gpu::device_facts(software, 0, read()));
}

}  // namespace
