#include "engine/layers.h"

namespace engine {

Reason reason_of(const storage::BlockDevice& device) {
  using storage::BlockKind;
  switch (device.kind) {
    case BlockKind::nvme:
      return device.pci_address.empty() ? Reason::not_nvme : Reason::none;
    case BlockKind::partition:
      return Reason::none;
    case BlockKind::nvme_fabrics:
      return device.detail.starts_with("rdma") ? Reason::none : Reason::network_storage;
    case BlockKind::network:
      return Reason::network_storage;
    case BlockKind::linear:
    case BlockKind::striped:
    case BlockKind::lvm_raid:
    case BlockKind::thin:
    case BlockKind::snapshot:
    case BlockKind::cache:
    case BlockKind::device_mapper:
      return Reason::device_mapper;
    case BlockKind::nvme_multipath:
    case BlockKind::dm_multipath:
      return Reason::multipath;
    case BlockKind::crypt:
      return Reason::encrypted_volume;
    case BlockKind::checked:
      return Reason::checked_volume;
    case BlockKind::md:
      return Reason::software_raid;
    case BlockKind::loop:
      return Reason::loop_device;
    case BlockKind::memory:
      return Reason::memory_disk;
    case BlockKind::virtio:
    case BlockKind::scsi:
    case BlockKind::ata:
    case BlockKind::usb:
    case BlockKind::mmc:
    case BlockKind::persistent_memory:
    case BlockKind::zfs_volume:
    case BlockKind::other:
      break;
  }
  return Reason::not_nvme;
}

}  // namespace engine
