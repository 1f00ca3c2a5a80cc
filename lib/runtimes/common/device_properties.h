// hipDeviceProp_t, of which only the fields below are filled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace runtimes {

struct DeviceProperties {
  const char* name = "";
  const char* architecture = "";  ///< gcnArchName
  uint64_t total_memory = 0;
  int warp_size = 0, max_threads = 0, processors = 0, integrated = 0;
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
};

/// Where they lie: in HIP 5 (also what the unversioned name gives in later majors), and from HIP 6 on.
struct PropertyLayout {
  size_t size, total_memory, warp_size, max_threads, processors, integrated, pci_bus, pci_device, pci_domain,
      arch;
};
inline constexpr PropertyLayout kR0000{792, 256, 276, 280, 336, 652, 368, 372, 364, 396};
inline constexpr PropertyLayout kR0600{1472, 288, 308, 320, 388, 396, 584, 588, 592, 1160};

inline void put_properties(void* out, const DeviceProperties& d, const PropertyLayout& at) {
  char* p = static_cast<char*>(out);
  memset(p, 0, at.size);
  auto put = [p](size_t offset, auto value) { memcpy(p + offset, &value, sizeof value); };
  snprintf(p, 256, "%s", d.name);
  put(at.total_memory, d.total_memory);
  put(at.warp_size, d.warp_size);
  put(at.max_threads, d.max_threads);
  put(at.processors, d.processors);
  put(at.integrated, d.integrated);
  put(at.pci_bus, d.pci_bus);
  put(at.pci_device, d.pci_device);
  put(at.pci_domain, d.pci_domain);
  snprintf(p + at.arch, 64, "%s", d.architecture);
}

}  // namespace runtimes
