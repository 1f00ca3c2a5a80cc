// The block devices under a file system, down to the disks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "sysfs/tree.h"

namespace storage {

enum class BlockKind {
  nvme,            ///< namespace on a PCIe controller
  nvme_multipath,  ///< native multipath: below are the paths
  nvme_fabrics,    ///< namespace over a network
  virtio,
  scsi,
  ata,
  usb,
  mmc,
  network,  ///< nbd, rbd, drbd, iSCSI
  memory,   ///< zram, brd
  persistent_memory,
  loop,
  partition,
  md,       ///< software RAID
  linear,   ///< LVM, one segment after the other
  striped,  ///< LVM
  lvm_raid,
  thin,
  snapshot,  ///< LVM, old style: the snapshot or its origin
  cache,     ///< dm-cache, dm-writecache, bcache
  crypt,
  checked,  ///< dm-integrity, dm-verity, VDO: the CPU looks at every block
  dm_multipath,
  device_mapper,  ///< any other target
  zfs_volume,
  other,
};

struct BlockDevice {
  dev_t number = 0;
  std::string name;  ///< "dm-0", "nvme0n1p2"
  BlockKind kind = BlockKind::other;
  std::string
      detail;  ///< what there is more to say: "LUKS2 home", "raid1", "tcp traddr=10.0.0.1,trsvcid=4420", a path
  std::string pci_address;  ///< of a disk's controller; "" if it has none
  std::vector<BlockDevice> below;

  /// The devices at the bottom: itself if there is nothing below.
  std::vector<const BlockDevice*> leaves() const;
  /// Levels from here to the lowest disk, partitions not counted; 1 for a disk.
  unsigned depth() const;
  /// "dm-0 (dm-crypt LUKS2 home)".
  std::string title() const;
  /// "dm-0 (dm-crypt LUKS2 home) on nvme0n1p2 on nvme0n1 (NVMe 0000:01:00.0)".
  std::string describe() const;
};

const char* name(BlockKind kind);

/// From sysfs by number alone: opens no device node and needs no privilege, udev or /dev. Nothing if sysfs does not have
/// the device, as with file systems that have none.
std::optional<BlockDevice> read_block_device(const sysfs::Tree& tree, dev_t number);

}  // namespace storage
