// What of a GPU decides whether storage can reach its memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/hip.h"
#include "sysfs/pci.h"

namespace gpu {

struct DeviceFacts {
  std::string address;      ///< of the PCI function, "0000:03:00.0"; "" if not known
  std::string name;         ///< for people: "gfx942", or what the runtime says
  std::optional<bool> ais;  ///< whether the driver has set up AIS for it; nothing if KFD does not list it
  bool virtual_function = false;
  bool integrated = false;  ///< its memory is the CPU's
  bool xgmi_to_cpu = false;
  uint64_t vram_bytes = 0;     ///< 0: not known
  uint64_t visible_bytes = 0;  ///< of it, those in the PCI region; 0: not known
  bool ais_disabled = false;   ///< by amdgpu's parameter of that name
  std::optional<bool> kernel_p2pdma;
  std::optional<sysfs::PciDevice> pci;

  bool small_bar() const { return vram_bytes > 0 && visible_bytes > 0 && visible_bytes < vram_bytes; }
  /// "GPU 0000:03:00.0 (gfx942), 192.0 GiB, ...".
  std::string describe() const;
};

/// What kernel and driver can do, found out by looking at what is there, not at configuration files. Nothing: cannot be
/// told, as /proc/kallsyms is hidden.
struct KernelFacts {
  std::optional<bool> p2pdma;  ///< CONFIG_PCI_P2PDMA
  std::optional<bool> ais;     ///< amdgpu has the AIS ioctl
};
KernelFacts read_kernel(const sysfs::Tree& tree);

/// All AMD GPUs that the amdgpu driver has, those that KFD does not list included. Needs no privilege and no device node.
std::vector<DeviceFacts> read_devices(const sysfs::Tree& tree);

/// The facts of a HIP device: those of its PCI function, and what the runtime adds. Nothing if its runtime is not AMD's.
std::optional<DeviceFacts> device_facts(const Runtime& runtime, int device,
                                        const std::vector<DeviceFacts>& all);

}  // namespace gpu
