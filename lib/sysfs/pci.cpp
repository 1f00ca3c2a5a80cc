#include "sysfs/pci.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace sysfs {
namespace {

const std::string kDevices = "/sys/bus/pci/devices/";

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, '/');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::vector<uint64_t> bar_sizes(const Tree& tree, const std::string& address) {
  constexpr size_t kBars = 6;
  std::istringstream lines(tree.read(kDevices + address + "/resource").value_or(""));
  std::vector<uint64_t> sizes;
  std::string begin, end, flags;
  while (sizes.size() < kBars && lines >> begin >> end >> flags) {
    const uint64_t first = strtoull(begin.c_str(), nullptr, 16), last = strtoull(end.c_str(), nullptr, 16);
    sizes.push_back(last > first ? last - first + 1 : 0);
  }
  return sizes;
}

uint32_t read_le(const std::string& bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

enum class Acs { off, redirects, unreadable };

// The ACS control register of a bridge: PCI Express extended capability 0x0d.
Acs acs_of(const Tree& tree, const std::string& bridge) {
  constexpr size_t kExtended = 0x100, kAcs = 0x0d, kControl = 6;
  constexpr uint32_t kRequestRedirect = 1 << 2, kCompletionRedirect = 1 << 3, kEgressControl = 1 << 5;
  const std::string config = tree.read(kDevices + bridge + "/config").value_or("");
  if (config.size() <= kExtended + 4) return Acs::unreadable;
  for (size_t at = kExtended; at >= kExtended && at + 8 <= config.size();) {
    const uint32_t header = read_le(config, at, 4);
    if ((header & 0xffff) == kAcs)
      return read_le(config, at + kControl, 2) & (kRequestRedirect | kCompletionRedirect | kEgressControl)
                 ? Acs::redirects
                 : Acs::off;
    const size_t next = header >> 20;
    if (next <= at) break;
    at = next;
  }
  return Acs::off;
}

// Any AMD CPU from Zen on forwards between root ports.
bool cpu_forwards(const Tree& tree) {
  std::istringstream lines(tree.read("/proc/cpuinfo").value_or(""));
  bool amd = false;
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const std::string value = line.substr(std::min(line.size(), line.find(':') + 1));
    if (line.starts_with("vendor_id")) amd = value.find("AuthenticAMD") != std::string::npos;
    if (line.starts_with("cpu family")) return amd && strtoul(value.c_str(), nullptr, 10) >= 0x17;
  }
  return false;
}

struct HostBridge {
  uint32_t vendor, device;  ///< 0: any
  bool same_bridge_only;
};
constexpr uint32_t kIntel = 0x8086, kGoogle = 0x1ae0;
// Host bridges that Linux lets forward: pci_p2pdma_whitelist.
constexpr std::array<HostBridge, 13> kForwarding{{{kIntel, 0x3c00, true},
                                                  {kIntel, 0x3c01, true},
                                                  {kIntel, 0x2f00, true},
                                                  {kIntel, 0x2f01, true},
                                                  {kIntel, 0x2030, false},
                                                  {kIntel, 0x2031, false},
                                                  {kIntel, 0x2032, false},
                                                  {kIntel, 0x2033, false},
                                                  {kIntel, 0x2020, false},
                                                  {kIntel, 0x09a2, false},
                                                  {kIntel, 0x0b25, false},
                                                  {kIntel, 0x0cfe, false},
                                                  {kGoogle, 0, false}}};

// The device that stands for a host bridge: the first one on its bus, if it is 00.0 or a root port.
std::optional<PciDevice> host_bridge_device(const Tree& tree, const std::string& host_bridge) {
  for (const auto& name : tree.list("/sys/devices/" + host_bridge)) {
    if (!is_pci_address(name)) continue;
    constexpr uint32_t kPciBridge = 0x0604;
    auto device = read_pci(tree, name);
    if (device && (name.ends_with(":00.0") || device->pci_class >> 8 == kPciBridge)) return device;
    return std::nullopt;
  }
  return std::nullopt;
}

struct Forwarding {
  bool permitted;
  std::string detail;
};

Forwarding host_bridge_forwards(const Tree& tree, const std::string& host_bridge, bool same) {
  auto device = host_bridge_device(tree, host_bridge);
  if (!device) return {false, "host bridge " + host_bridge + " cannot be told"};
  char id[16];
  snprintf(id, sizeof id, "%04x:%04x", device->vendor, device->device);
  const std::string name = "host bridge " + host_bridge + " (" + id + ")";
  for (const auto& known : kForwarding) {
    if (known.vendor != device->vendor || (known.device && known.device != device->device)) continue;
    if (known.same_bridge_only && !same) return {false, name + " forwards only to itself"};
    return {true, name};
  }
  return {false, name + " is not on the kernel's list"};
}

Forwarding forwards(const Tree& tree, const PciDevice& a, const PciDevice& b) {
  if (cpu_forwards(tree)) return {true, "host bridge of an AMD Zen CPU"};
  const bool same = a.host_bridge == b.host_bridge;
  Forwarding first = host_bridge_forwards(tree, a.host_bridge, same);
  if (same || !first.permitted) return first;
  return host_bridge_forwards(tree, b.host_bridge, same);
}

// Ports of the two that send requests up to the host bridge instead of to each other.
std::string redirecting_ports(const Tree& tree, const PciDevice& a, const PciDevice& b, size_t shared) {
  std::string ports;
  bool unreadable = false;
  for (const PciDevice* device : {&a, &b})
    for (size_t i = shared; i < device->bridges.size(); i++) {
      const Acs acs = acs_of(tree, device->bridges[i]);
      if (acs == Acs::unreadable) unreadable = true;
      if (acs == Acs::redirects) ports += (ports.empty() ? "" : ";") + device->bridges[i];
    }
  if (ports.empty() && unreadable && a.iommu_group && b.iommu_group && a.iommu_group != b.iommu_group)
    return "unknown";
  return ports;
}

}  // namespace

uint64_t PciDevice::largest_bar() const {
  return bars.empty() ? 0 : *std::max_element(bars.begin(), bars.end());
}

bool is_pci_address(const std::string& name) {
  unsigned domain, bus, device, function;
  int used = 0;
  return sscanf(name.c_str(), "%x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) == 4 &&
         static_cast<size_t>(used) == name.size() && name.size() >= 12;
}

std::string pci_address_in(const std::string& real_path) {
  auto parts = split(real_path);
  auto last = std::find_if(parts.rbegin(), parts.rend(), is_pci_address);
  return last == parts.rend() ? "" : *last;
}

std::optional<PciDevice> read_pci(const Tree& tree, const std::string& address) {
  auto path = tree.real(kDevices + address);
  if (!path) return std::nullopt;
  PciDevice device;
  device.address = address;
  device.vendor = static_cast<uint32_t>(tree.number(*path + "/vendor").value_or(0));
  device.device = static_cast<uint32_t>(tree.number(*path + "/device").value_or(0));
  device.pci_class = static_cast<uint32_t>(tree.number(*path + "/class").value_or(0));
  for (const auto& part : split(*path)) {
    if (part == address) break;
    if (is_pci_address(part))
      device.bridges.push_back(part);
    else if (part.starts_with("pci") && device.host_bridge.empty())
      device.host_bridge = part;
  }
  device.bars = bar_sizes(tree, address);
  if (auto group = tree.real(*path + "/iommu_group"))
    device.iommu_group = strtoull(base_name(*group).c_str(), nullptr, 10);
  device.is_virtual_function = tree.exists(*path + "/physfn");
  return device;
}

PeerDistance peer_distance(const Tree& tree, const PciDevice& a, const PciDevice& b) {
  if (a.host_bridge.empty() || b.host_bridge.empty()) return {};
  size_t shared = 0;
  if (a.host_bridge == b.host_bridge)
    while (shared < std::min(a.bridges.size(), b.bridges.size()) && a.bridges[shared] == b.bridges[shared])
      shared++;
  PeerDistance distance;
  distance.hops = static_cast<unsigned>(a.bridges.size() + b.bridges.size() + 2 - 2 * shared);
  std::string redirecting = shared ? redirecting_ports(tree, a, b, shared) : "";
  if (shared && redirecting.empty()) {
    distance.path = PeerPath::direct;
    distance.detail = "both below bridge " + a.bridges[shared - 1];
    return distance;
  }
  Forwarding forwarding = forwards(tree, a, b);
  distance.path = forwarding.permitted ? PeerPath::host_bridge : PeerPath::not_permitted;
  distance.detail = forwarding.detail;
  if (redirecting == "unknown")
    distance.detail = "ACS seems to redirect below bridge " + a.bridges[shared - 1] +
                      " (IOMMU groups differ); " + distance.detail;
  else if (!redirecting.empty())
    distance.detail = "ACS redirects at " + redirecting + "; " + distance.detail;
  return distance;
}

}  // namespace sysfs
