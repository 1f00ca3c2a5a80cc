// PCI functions, where they hang, and whether the kernel lets two of them talk to each other directly.
#pragma once

#include <string>
#include <vector>

#include "sysfs/tree.h"

namespace sysfs {

struct PciDevice {
  std::string address;  ///< "0000:03:00.0"
  uint32_t vendor = 0, device = 0;
  uint32_t pci_class = 0;               ///< 24 bits: base class, subclass, interface
  std::string host_bridge;              ///< "pci0000:00"
  std::vector<std::string> bridges;     ///< addresses from the root port to the one above the device
  std::vector<uint64_t> bars;           ///< sizes in bytes of the six regions; 0: not there
  std::optional<uint64_t> iommu_group;  ///< nothing without an IOMMU
  bool is_virtual_function = false;     ///< of a physical one in this machine

  uint64_t largest_bar() const;
};

/// Whether `name` has the form of a PCI address.
bool is_pci_address(const std::string& name);
/// The PCI function at or above a device, from its path below /sys/devices; "" if there is none.
std::string pci_address_in(const std::string& real_path);
/// Nothing if there is no such function.
std::optional<PciDevice> read_pci(const Tree& tree, const std::string& address);

/// How DMA between two functions would go.
enum class PeerPath {
  direct,         ///< inside one switch
  host_bridge,    ///< through a host bridge of which the kernel knows that it forwards
  not_permitted,  ///< the kernel does not let it through the host bridge
  unknown,        ///< one of the functions is not to be seen
};

struct PeerDistance {
  PeerPath path = PeerPath::unknown;
  unsigned hops = 0;  ///< bridges up and down between the two
  /// What decided, for people: the host bridge and its id, the switch, ports with ACS redirection.
  std::string detail;
};

/// What pci_p2pdma_distance() of Linux 6.2 to 7.2 answers for the two, as far as it can be told from outside. ACS is
/// read from configuration space (root only), otherwise guessed from IOMMU groups.
PeerDistance peer_distance(const Tree& tree, const PciDevice& a, const PciDevice& b);

}  // namespace sysfs
