#include "gpu/device_facts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

namespace gpu {
namespace {

const std::string kNodes = "/sys/class/kfd/kfd/topology/nodes/";
const std::string kPciDevices = "/sys/bus/pci/devices/";
constexpr uint32_t kAmd = 0x1002;
constexpr uint64_t kCapabilityAis = 0x40;  // amdgpu-dkms: HSA node capability
constexpr uint64_t kLinkXgmi = 11;         // CRAT I/O link type

// Device ids of virtual functions, from pci.ids and ROCm's documentation: the guest does not see the physical one.
constexpr std::array<uint32_t, 8> kVirtualFunctions{0x686c, 0x73ae, 0x73ce, 0x7410,
                                                    0x74b5, 0x74b9, 0x74bd, 0x75b0};

bool is_set(const std::optional<std::string>& parameter) {
  return parameter && (*parameter == "1" || *parameter == "Y");
}

void read_pci_facts(const sysfs::Tree& tree, DeviceFacts& device) {
  device.pci = sysfs::read_pci(tree, device.address);
  if (!device.pci) return;
  const uint32_t id = device.pci->device;
  device.virtual_function =
      device.pci->is_virtual_function ||
      std::find(kVirtualFunctions.begin(), kVirtualFunctions.end(), id) != kVirtualFunctions.end();
  const std::string directory = kPciDevices + device.address;
  device.vram_bytes = tree.number(directory + "/mem_info_vram_total").value_or(0);
  device.visible_bytes =
      tree.number(directory + "/mem_info_vis_vram_total").value_or(device.pci->largest_bar());
}

// A link to a node with CPU cores that is not PCIe.
bool has_xgmi_to_cpu(const sysfs::Tree& tree, const std::string& node) {
  for (const auto& link : tree.list(node + "/io_links")) {
    const std::string file = node + "/io_links/" + link + "/properties";
    if (tree.property(file, "type") != kLinkXgmi) continue;
    const std::string other =
        kNodes + std::to_string(tree.property(file, "node_to").value_or(0)) + "/properties";
    if (tree.property(other, "cpu_cores_count").value_or(0) > 0) return true;
  }
  return false;
}

// Where amdgpu does not say how much of the memory is visible, KFD does by the kind of the heap.
void read_memory_banks(const sysfs::Tree& tree, const std::string& node, DeviceFacts& device) {
  constexpr uint64_t kVisible = 1, kInvisible = 2;
  uint64_t visible = 0, total = 0;
  for (const auto& bank : tree.list(node + "/mem_banks")) {
    const std::string file = node + "/mem_banks/" + bank + "/properties";
    const uint64_t size = tree.property(file, "size_in_bytes").value_or(0);
    const auto heap = tree.property(file, "heap_type");
    if (heap == kVisible || heap == kInvisible) total += size;
    if (heap == kVisible) visible += size;
  }
  if (device.vram_bytes == 0) device.vram_bytes = total;
  if (device.visible_bytes == 0 && visible > 0) device.visible_bytes = visible;
}

std::string gfx_name(uint64_t version) {
  char name[32];
  snprintf(name, sizeof name, "gfx%llu%llx%llx", static_cast<unsigned long long>(version / 10000),
           static_cast<unsigned long long>(version / 100 % 100),
           static_cast<unsigned long long>(version % 100));
  return version ? name : "";
}

std::optional<DeviceFacts> read_node(const sysfs::Tree& tree, const std::string& node) {
  const std::string file = node + "/properties";
  auto value = [&](const char* name) { return tree.property(file, name).value_or(0); };
  if (value("simd_count") == 0 || (value("vendor_id") != 0 && value("vendor_id") != kAmd))
    return std::nullopt;
  DeviceFacts device;
  const uint64_t location = value("location_id");
  char address[32];
  snprintf(address, sizeof address, "%04x:%02x:%02x.%x", static_cast<unsigned>(value("domain")),
           static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f),
           static_cast<unsigned>(location & 7));
  device.address = address;
  device.name = gfx_name(value("gfx_target_version"));
  device.ais = value("capability") & kCapabilityAis;
  device.integrated = value("cpu_cores_count") > 0;
  device.xgmi_to_cpu = has_xgmi_to_cpu(tree, node);
  read_pci_facts(tree, device);
  read_memory_banks(tree, node, device);
  return device;
}

bool is_gpu_of_amdgpu(const sysfs::Tree& tree, const std::string& address) {
  if (tree.number(kPciDevices + address + "/vendor") != kAmd) return false;
  auto driver = tree.real(kPciDevices + address + "/driver");
  return driver && sysfs::base_name(*driver) == "amdgpu";
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

bool says_virtual(const std::string& name) {
  return name.ends_with(" VF") || name.find("MxGPU") != std::string::npos;
}

}  // namespace

std::string DeviceFacts::describe() const {
  std::string text = "GPU " + (address.empty() ? std::string("?") : address);
  if (!name.empty()) text += " (" + name + ")";
  if (vram_bytes) text += ", " + gibibytes(vram_bytes);
  if (small_bar()) text += " of which " + gibibytes(visible_bytes) + " visible";
  if (virtual_function) text += ", virtual function";
  if (integrated) text += ", integrated";
  if (xgmi_to_cpu) text += ", XGMI to the CPU";
  if (ais) text += *ais ? ", AIS" : ", no AIS";
  return text;
}

KernelFacts read_kernel(const sysfs::Tree& tree) {
  KernelFacts facts;
  // Either of these can only be there with P2PDMA.
  for (const auto& node : tree.list(kNodes))
    if (tree.property(kNodes + node + "/properties", "capability").value_or(0) & kCapabilityAis &&
        tree.property(kNodes + node + "/properties", "simd_count").value_or(0) > 0)
      facts.p2pdma = facts.ais = true;
  for (const auto& address : tree.list(kPciDevices))
    if (tree.exists(kPciDevices + address + "/p2pmem")) facts.p2pdma = true;
  if (facts.p2pdma && facts.ais) return facts;
  std::ifstream symbols(tree.root() + "/proc/kallsyms");
  bool p2pdma = false, ais = false, any = false;
  for (std::string line; std::getline(symbols, line);) {
    any = true;
    p2pdma = p2pdma || line.find(" pci_p2pdma_distance_many") != std::string::npos;
    ais = ais || line.find(" kfd_ais_rw_file") != std::string::npos;
  }
  if (!any) return facts;
  if (!facts.p2pdma) facts.p2pdma = p2pdma;
  if (!facts.ais) facts.ais = ais;
  return facts;
}

std::vector<DeviceFacts> read_devices(const sysfs::Tree& tree) {
  std::vector<DeviceFacts> devices;
  for (const auto& node : tree.list(kNodes))
    if (auto device = read_node(tree, kNodes + node)) devices.push_back(std::move(*device));
  for (const auto& address : tree.list(kPciDevices)) {
    auto is_this = [&](const DeviceFacts& d) { return d.address == address; };
    if (!is_gpu_of_amdgpu(tree, address) || std::any_of(devices.begin(), devices.end(), is_this)) continue;
    DeviceFacts device;
    device.address = address;
    read_pci_facts(tree, device);
    devices.push_back(std::move(device));
  }
  if (devices.empty()) return devices;
  const bool disabled = is_set(tree.read("/sys/module/amdgpu/parameters/ais_disabled"));
  const bool all_have_ais =
      std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d.ais == true; });
  const auto p2pdma = all_have_ais ? std::optional(true) : read_kernel(tree).p2pdma;
  for (auto& device : devices) {
    device.ais_disabled = disabled;
    device.kernel_p2pdma = p2pdma;
  }
  return devices;
}

std::optional<DeviceFacts> device_facts(const Runtime& runtime, int device,
                                        const std::vector<DeviceFacts>& all) {
  if (runtime.kind() != RuntimeKind::amd) return std::nullopt;
  auto attribute = [&](hip::DeviceAttribute which) {
    int value = 0;
    if (runtime.hip().hipDeviceGetAttribute(&value, which, device) != hip::kSuccess)
      runtime.hip().hipGetLastError();
    return static_cast<unsigned>(value);
  };
  char address[32];
  snprintf(address, sizeof address, "%04x:%02x:%02x.0", attribute(hip::kAttributePciDomainId),
           attribute(hip::kAttributePciBusId), attribute(hip::kAttributePciDeviceId));
  auto found = std::find_if(all.begin(), all.end(), [&](const DeviceFacts& d) {
    // HIP does not tell the function, which is not 0 for virtual functions.
    return d.address.compare(0, d.address.size() - 1, address, sizeof "0000:00:00." - 1) == 0;
  });
  DeviceFacts facts = found == all.end() ? DeviceFacts() : *found;
  char name[256] = "";
  if (runtime.hip().hipDeviceGetName(name, sizeof name, device) == hip::kSuccess && name[0])
    facts.name = name;
  if (says_virtual(facts.name)) facts.virtual_function = true;
  if (attribute(hip::kAttributeIntegrated)) facts.integrated = true;
  return facts;
}

}  // namespace gpu
