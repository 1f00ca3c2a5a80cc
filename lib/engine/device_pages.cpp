#include "engine/device_pages.h"

#include <algorithm>

namespace engine {
namespace {

using storage::BlockDevice;
using storage::BlockKind;

struct Judgement {
  Reason reason;
  bool certain;
};

// As Linux 7.3 does; MD of levels without parity and NVMe multipath pass such pages on in recent kernels only.
Judgement of_layer(const BlockDevice& device) {
  switch (device.kind) {
    case BlockKind::nvme:
      return {device.pci_address.empty() ? Reason::not_nvme : Reason::none, true};
    case BlockKind::partition:
      return {Reason::none, true};
    case BlockKind::nvme_multipath:
      return {Reason::multipath, false};
    case BlockKind::md:
      return {Reason::software_raid,
              device.detail != "raid0" && device.detail != "raid1" && device.detail != "raid10"};
    case BlockKind::nvme_fabrics:
      return {device.detail.starts_with("rdma") ? Reason::none : Reason::network_storage, true};
    case BlockKind::network:
      return {Reason::network_storage, true};
    case BlockKind::linear:
    case BlockKind::striped:
    case BlockKind::lvm_raid:
    case BlockKind::thin:
    case BlockKind::snapshot:
    case BlockKind::cache:
    case BlockKind::device_mapper:
      return {Reason::device_mapper, true};
    case BlockKind::dm_multipath:
      return {Reason::multipath, true};
    case BlockKind::crypt:
      return {Reason::encrypted_volume, true};
    case BlockKind::checked:
      return {Reason::checked_volume, true};
    case BlockKind::loop:
      return {Reason::loop_device, true};
    case BlockKind::memory:
      return {Reason::memory_disk, true};
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
  return {Reason::not_nvme, true};
}

void add(std::vector<Objection>& all, const Judgement& judgement, const std::string& subject) {
  if (judgement.reason == Reason::none) return;
  auto same = [&](const Objection& o) { return o.reason == judgement.reason && o.subject == subject; };
  if (std::none_of(all.begin(), all.end(), same))
    all.push_back({judgement.reason, judgement.certain, subject});
}

void add_stack(std::vector<Objection>& all, const BlockDevice& device) {
  const Judgement judgement = of_layer(device);
  add(all, judgement, device.title());
  // What lies below something that stands in the way for good does not matter any more.
  if (judgement.reason != Reason::none && judgement.certain) return;
  for (const auto& below : device.below) add_stack(all, below);
}

void add_volume(std::vector<Objection>& all, const storage::Volume& volume) {
  for (const auto& device : volume.devices) add_stack(all, device);
  for (const auto& layer : volume.layers)
    if (layer.volume) add_volume(all, *layer.volume);
  if (volume.mount.type.starts_with("nfs")) add(all, {Reason::network_storage, true}, volume.describe());
}

}  // namespace

std::vector<Objection> objections_to_device_pages(const storage::FileFacts& file) {
  std::vector<Objection> all;
  if (file.kind == storage::FileKind::other)
    add(all, {Reason::not_regular, true}, "");
  else if (file.offset_align == 0)
    add(all, {Reason::no_direct_io, true}, "");
  if (file.volume) add_volume(all, *file.volume);
  return all;
}

}  // namespace engine
