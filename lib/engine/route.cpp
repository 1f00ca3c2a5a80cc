#include "engine/route.h"

#include <algorithm>

namespace engine {

const char* name(Route route) {
  switch (route) {
    case Route::none:
      return "none";
    case Route::peer:
      return "peer";
    case Route::pages:
      return "pages";
    case Route::cached:
      return "cached";
    case Route::staged:
      return "staged";
    case Route::store:
      return "store";
  }
  return "unknown";
}

const char* text(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "the best route";
    case Reason::disabled:
      return "switched off by an option";
    case Reason::no_runtime_ais:
      return "the HIP runtime has no hipAmdFileRead/hipAmdFileWrite";
    case Reason::host_pages:
      return "the buffer is host memory, which needs no peer-to-peer DMA";
    case Reason::not_pages:
      return "the CPU cannot address the buffer as pages";
    case Reason::no_direct_io:
      return "the file cannot be opened with O_DIRECT";
    case Reason::file_system:
      return "the file system cannot take part in peer-to-peer DMA";
    case Reason::journaled_data:
      return "ext4 is mounted with a data mode other than ordered";
    case Reason::offset_alignment:
      return "file offset or length is not a multiple of the disk's block";
    case Reason::memory_alignment:
      return "the buffer address is not aligned for direct I/O";
    case Reason::too_small:
      return "the request is too small for direct I/O";
    case Reason::failed:
      return "it was tried for this request and failed";
    case Reason::failed_before:
      return "it failed before on this file";
    case Reason::not_regular:
      return "neither a regular file nor a block device";
    case Reason::imported_memory:
      return "the way the buffer was registered excludes it";
    case Reason::not_cached:
      return "the range is not in the page cache";
    case Reason::encrypted_file:
      return "the file system encrypts the file (fscrypt)";
    case Reason::verified_file:
      return "the CPU verifies what is read of the file (fs-verity)";
    case Reason::compressed_file:
      return "the file system compresses the file";
    case Reason::inline_data:
      return "the file is so small that it lies in its inode";
    case Reason::encrypted_volume:
      return "the CPU encrypts the volume";
    case Reason::checked_volume:
      return "the CPU checks or packs every block of the volume";
    case Reason::software_raid:
      return "the volume is software RAID (MD)";
    case Reason::multipath:
      return "the volume is reached over several paths";
    case Reason::loop_device:
      return "the volume is a file on another file system";
    case Reason::memory_disk:
      return "the volume lies in main memory";
    case Reason::network_storage:
      return "the volume is reached over a network without RDMA";
    case Reason::not_nvme:
      return "the disk is not NVMe on PCIe";
    case Reason::device_mapper:
      return "the volume has a device-mapper layer that may not pass device memory on";
    case Reason::too_many_devices:
      return "the volume has more devices or layers than the driver looks through";
    case Reason::gpu_without_ais:
      return "the GPU's driver offers no AIS";
    case Reason::ais_disabled:
      return "amdgpu was loaded with ais_disabled=1";
    case Reason::virtual_function:
      return "the GPU is an SR-IOV virtual function";
    case Reason::integrated_gpu:
      return "the GPU shares the CPU's memory";
    case Reason::small_bar:
      return "PCI shows only a part of the GPU's memory";
    case Reason::kernel_without_p2pdma:
      return "the kernel was built without CONFIG_PCI_P2PDMA";
    case Reason::no_peer_path:
      return "the kernel permits no DMA between disk and GPU";
    case Reason::no_gpu:
      return "there is no AMD GPU with the amdgpu driver";
    case Reason::not_small:
      return "only reads of up to 64 KiB are worth CPU stores";
    case Reason::in_page_cache:
      return "the page cache has the data, or is to keep it";
  }
  return "unknown";
}

const char* advice(Reason reason) {
  switch (reason) {
    case Reason::none:
    case Reason::host_pages:
    case Reason::not_pages:
    case Reason::too_small:
    case Reason::failed:
    case Reason::not_regular:
    case Reason::imported_memory:
    case Reason::not_cached:
    case Reason::integrated_gpu:
    case Reason::no_gpu:
    case Reason::not_small:
    case Reason::in_page_cache:
      return "";
    case Reason::disabled:
      return "allow the route in the configuration (routes=, HIPFILE_FORCE_COMPAT_MODE)";
    case Reason::no_runtime_ais:
      return "install ROCm 7.2 or later";
    case Reason::no_direct_io:
      return "put the file on xfs, or on ext4 with data=ordered";
    case Reason::file_system:
      return "put the file on xfs, or on ext4 with data=ordered; or try it all the same with "
             "HIPFILE_UNSUPPORTED_FILE_SYSTEMS=true (NFS over RDMA)";
    case Reason::journaled_data:
      return "mount ext4 with data=ordered, its default; for a single file, chattr -j";
    case Reason::offset_alignment:
      return "begin and end requests at multiples of the file's alignment";
    case Reason::memory_alignment:
      return "begin at an address that is a multiple of the file's memory alignment";
    case Reason::failed_before:
      return "the log says what failed; it is tried again after a while";
    case Reason::encrypted_file:
      return "keep the file in a directory without an encryption policy; self-encrypting drives do not "
             "matter";
    case Reason::verified_file:
      return "use a copy without fs-verity";
    case Reason::compressed_file:
      return "use a copy without compression";
    case Reason::inline_data:
      return "a file of this size gains nothing from peer-to-peer DMA";
    case Reason::encrypted_volume:
      return "an unencrypted volume is needed, or a self-encrypting drive";
    case Reason::checked_volume:
      return "a volume without dm-integrity, dm-verity and VDO is needed";
    case Reason::software_raid:
      return "for AIS, LVM striping (lvcreate -i) or single disks; for pages of a PCI device, RAID 0 or 1";
    case Reason::multipath:
      return "for AIS on local disks, boot with nvme_core.multipath=N; pages of a PCI device pass NVMe "
             "multipath, not dm-multipath";
    case Reason::loop_device:
      return "use the file system below, or a disk of its own";
    case Reason::memory_disk:
      return "what lies in main memory needs no peer-to-peer DMA";
    case Reason::network_storage:
      return "use RDMA as the transport, or a local NVMe disk";
    case Reason::not_nvme:
      return "use an NVMe disk on PCIe";
    case Reason::device_mapper:
      return "for AIS, a plain LVM volume (linear, striped or RAID); for pages of a PCI device, no device "
             "mapper";
    case Reason::too_many_devices:
      return "use at most 16 physical volumes, and no more than 4 layers";
    case Reason::gpu_without_ais:
      return "install amdgpu-dkms of ROCm 7.2 or later; the kernel's own amdgpu has no AIS";
    case Reason::ais_disabled:
      return "load amdgpu with ais_disabled=0; its bookkeeping takes about 1 GiB of memory per 64 GiB of "
             "VRAM";
    case Reason::virtual_function:
      return "pass the whole GPU through to the virtual machine";
    case Reason::small_bar:
      return "enable Resizable BAR and Above 4G Decoding in the firmware";
    case Reason::kernel_without_p2pdma:
      return "use a kernel with CONFIG_PCI_P2PDMA (Ubuntu 22.04: the HWE kernel)";
    case Reason::no_peer_path:
      return "put disk and GPU below one PCIe switch, or use a CPU whose root ports forward (AMD Zen); "
             "against ACS, boot "
             "with pci=disable_acs_redir=";
  }
  return "";
}

RouteSet RouteSet::all() {
  RouteSet set;
  for (uint32_t r = 1; r < kRoutes; r++) set.add(static_cast<Route>(r));
  return set;
}

std::optional<RouteSet> RouteSet::parse(const std::string& names) {
  if (names == "all") return all();
  RouteSet set;
  for (size_t start = 0; start <= names.size();) {
    size_t end = std::min(names.find(',', start), names.size());
    std::string item = names.substr(start, end - start);
    bool known = false;
    for (uint32_t r = 1; r < kRoutes; r++) {
      if (item != name(static_cast<Route>(r))) continue;
      set.add(static_cast<Route>(r));
      known = true;
    }
    if (!known) return std::nullopt;
    start = end + 1;
  }
  return set;
}

}  // namespace engine
