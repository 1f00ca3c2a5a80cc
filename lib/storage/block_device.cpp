#include "storage/block_device.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <cctype>

#include "sysfs/pci.h"

namespace storage {
namespace {

constexpr unsigned kMostLevels = 16;  // what is deeper is a mistake, or a loop

std::optional<dev_t> parse_number(const std::string& text) {
  unsigned major, minor;
  if (sscanf(text.c_str(), "%u:%u", &major, &minor) != 2) return std::nullopt;
  return makedev(major, minor);
}

bool has_part(const std::string& path, const std::string& prefix) {
  for (size_t at = path.find('/' + prefix); at != std::string::npos; at = path.find('/' + prefix, at + 1)) {
    const size_t digit = at + 1 + prefix.size();
    if (digit < path.size() && isdigit(static_cast<unsigned char>(path[digit]))) return true;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(const sysfs::Tree& tree) : tree_(tree) {}

  /// `path` is the device's directory below /sys/devices.
  BlockDevice read(const std::string& path, unsigned level) const {
    BlockDevice device;
    device.name = sysfs::base_name(path);
    if (auto number = parse_number(tree_.read(path + "/dev").value_or(""))) device.number = *number;
    if (tree_.exists(path + "/partition")) {
      device.kind = BlockKind::partition;
      device.below.push_back(read(path.substr(0, path.rfind('/')), level));
      return device;
    }
    if (level < kMostLevels)
      for (const auto& slave : tree_.list(path + "/slaves"))
        if (auto real = tree_.real(path + "/slaves/" + slave)) device.below.push_back(read(*real, level + 1));
    classify(path, device);
    return device;
  }

 private:
  void classify(const std::string& path, BlockDevice& device) const {
    const std::string& name = device.name;
    if (tree_.exists(path + "/dm")) return classify_mapped(path, device);
    if (tree_.exists(path + "/md")) {
      device.kind = BlockKind::md;
      device.detail = tree_.read(path + "/md/level").value_or("");
    } else if (tree_.exists(path + "/bcache") && !device.below.empty()) {
      device.kind = BlockKind::cache;
      device.detail = "bcache";
    } else if (name.starts_with("nvme")) {
      classify_nvme(path, device);
    } else if (name.starts_with("loop")) {
      device.kind = BlockKind::loop;
      device.detail = tree_.read(path + "/loop/backing_file").value_or("");
    } else if (name.starts_with("zram") || name.starts_with("ram")) {
      device.kind = BlockKind::memory;
    } else if (name.starts_with("nbd") || name.starts_with("rbd") || name.starts_with("drbd")) {
      device.kind = BlockKind::network;
    } else if (name.starts_with("pmem")) {
      device.kind = BlockKind::persistent_memory;
    } else if (name.starts_with("zd")) {
      device.kind = BlockKind::zfs_volume;
    } else {
      classify_disk(path, device);
    }
  }

  void classify_disk(const std::string& path, BlockDevice& device) const {
    device.pci_address = sysfs::pci_address_in(path);
    if (has_part(path, "virtio")) {
      device.kind = BlockKind::virtio;
    } else if (has_part(path, "session")) {
      device.kind = BlockKind::network;
      device.detail = "iSCSI";
    } else if (has_part(path, "usb")) {
      device.kind = BlockKind::usb;
    } else if (has_part(path, "ata")) {
      device.kind = BlockKind::ata;
    } else if (has_part(path, "host")) {
      device.kind = BlockKind::scsi;
    } else if (device.name.starts_with("mmcblk")) {
      device.kind = BlockKind::mmc;
    }
  }

  // A namespace lies below its controller, or, shared by several, below the subsystem.
  void classify_nvme(const std::string& path, BlockDevice& device) const {
    const std::string above = path.substr(0, path.rfind('/'));
    if (sysfs::base_name(above).starts_with("nvme-subsys")) {
      device.kind = BlockKind::nvme_multipath;
      device.below = paths_of(above, path);
      return;
    }
    const std::string transport = tree_.read(above + "/transport").value_or("pcie");
    if (transport == "pcie") {
      device.kind = BlockKind::nvme;
      device.pci_address = sysfs::pci_address_in(path);
    } else {
      device.kind = BlockKind::nvme_fabrics;
      device.detail = transport + " " + tree_.read(above + "/address").value_or("");
    }
    const std::string state = tree_.read(above + "/state").value_or("live");
    if (state != "live") device.detail += (device.detail.empty() ? "" : " ") + state;
  }

  // nvme0n1 of a subsystem has the paths nvme0c0n1, nvme0c1n1, ... below the subsystem's controllers.
  std::vector<BlockDevice> paths_of(const std::string& subsystem, const std::string& head) const {
    std::vector<BlockDevice> paths;
    const std::string name = sysfs::base_name(head);
    const size_t namespace_at = name.rfind('n');
    const std::string prefix = name.substr(0, namespace_at) + "c", suffix = name.substr(namespace_at);
    for (const auto& controller : tree_.list(subsystem)) {
      auto real = tree_.real(subsystem + "/" + controller);
      if (!real || !controller.starts_with("nvme") || *real == head) continue;
      for (const auto& entry : tree_.list(*real))
        if (entry.starts_with(prefix) && entry.ends_with(suffix) &&
            entry.find('n', prefix.size()) == entry.size() - suffix.size()) {
          paths.push_back(read(*real + "/" + entry, kMostLevels));
          if (auto ana = tree_.read(*real + "/" + entry + "/ana_state"); ana && *ana != "optimized")
            paths.back().detail += (paths.back().detail.empty() ? "" : " ") + *ana;
        }
    }
    return paths;
  }

  // The uuid of a mapped device says who made it, and for LVM which part of a volume it is; the table itself is only
  // for root.
  void classify_mapped(const std::string& path, BlockDevice& device) const {
    const std::string uuid = tree_.read(path + "/dm/uuid").value_or("");
    device.detail = tree_.read(path + "/dm/name").value_or("");
    auto is = [&uuid](const char* prefix) { return uuid.starts_with(prefix); };
    if (is("CRYPT-VERITY") || is("CRYPT-INTEGRITY") || is("VDO-")) {
      device.kind = BlockKind::checked;
      device.detail = (is("VDO") ? "VDO " : is("CRYPT-V") ? "dm-verity " : "dm-integrity ") + device.detail;
    } else if (is("CRYPT-")) {
      const size_t begin = sizeof "CRYPT-" - 1;
      device.kind = BlockKind::crypt;
      device.detail = uuid.substr(begin, uuid.find('-', begin) - begin) + " " + device.detail;
    } else if (is("mpath-")) {
      device.kind = BlockKind::dm_multipath;
    } else if (is("part") && device.below.size() == 1) {
      device.kind = BlockKind::linear;
    } else if (is("LVM-")) {
      classify_lvm(path, device);
    } else {
      device.kind = BlockKind::device_mapper;
    }
  }

  void classify_lvm(const std::string& path, BlockDevice& device) const {
    auto below = [&](const char* part) {
      return std::any_of(device.below.begin(), device.below.end(), [&](const BlockDevice& b) {
        return b.detail.find(part) != std::string::npos ||
               tree_.read("/sys/block/" + b.name + "/dm/uuid").value_or("").ends_with(part);
      });
    };
    if (below("_rimage_") || below("_mimage_"))
      device.kind = BlockKind::lvm_raid;
    else if (below("_tdata") || below("-tpool"))
      device.kind = BlockKind::thin;
    else if (below("-cow") || below("-real"))
      device.kind = BlockKind::snapshot;
    else if (below("_cdata") || below("_corig") || below("_wcorig") || below("_cvol"))
      device.kind = BlockKind::cache;
    else if (below("_vdata") || below("_vpool"))
      device.kind = BlockKind::checked;
    else
      device.kind = is_striped(path, device) ? BlockKind::striped : BlockKind::linear;
  }

  // A striped target announces a stripe as its smallest request and all stripes together as the best one.
  bool is_striped(const std::string& path, const BlockDevice& device) const {
    if (device.below.size() < 2) return false;
    const uint64_t smallest = tree_.number(path + "/queue/minimum_io_size").value_or(0);
    const uint64_t best = tree_.number(path + "/queue/optimal_io_size").value_or(0);
    return smallest > 0 && best >= 2 * smallest && best % smallest == 0;
  }

  const sysfs::Tree& tree_;
};

const char* label(BlockKind kind) {
  switch (kind) {
    case BlockKind::nvme:
      return "NVMe";
    case BlockKind::nvme_multipath:
      return "NVMe multipath";
    case BlockKind::nvme_fabrics:
      return "NVMe over fabrics";
    case BlockKind::virtio:
      return "virtio";
    case BlockKind::scsi:
      return "SCSI";
    case BlockKind::ata:
      return "SATA";
    case BlockKind::usb:
      return "USB";
    case BlockKind::mmc:
      return "MMC";
    case BlockKind::network:
      return "network";
    case BlockKind::memory:
      return "RAM disk";
    case BlockKind::persistent_memory:
      return "persistent memory";
    case BlockKind::loop:
      return "loop";
    case BlockKind::partition:
      return "";
    case BlockKind::md:
      return "MD";
    case BlockKind::linear:
      return "LVM linear";
    case BlockKind::striped:
      return "LVM striped";
    case BlockKind::lvm_raid:
      return "LVM RAID";
    case BlockKind::thin:
      return "LVM thin";
    case BlockKind::snapshot:
      return "LVM snapshot";
    case BlockKind::cache:
      return "cache";
    case BlockKind::crypt:
      return "dm-crypt";
    case BlockKind::checked:
      return "checked";
    case BlockKind::dm_multipath:
      return "dm-multipath";
    case BlockKind::device_mapper:
      return "device mapper";
    case BlockKind::zfs_volume:
      return "ZFS volume";
    case BlockKind::other:
      break;
  }
  return "";
}

}  // namespace

const char* name(BlockKind kind) { return kind == BlockKind::partition ? "partition" : label(kind); }

std::vector<const BlockDevice*> BlockDevice::leaves() const {
  if (below.empty()) return {this};
  std::vector<const BlockDevice*> all;
  for (const auto& device : below)
    for (const BlockDevice* leaf : device.leaves()) all.push_back(leaf);
  return all;
}

unsigned BlockDevice::depth() const {
  unsigned deepest = 0;
  for (const auto& device : below) deepest = std::max(deepest, device.depth());
  return deepest + (kind == BlockKind::partition ? 0 : 1);
}

std::string BlockDevice::title() const {
  std::string inside = label(kind);
  for (const std::string& more : {detail, pci_address})
    if (!more.empty()) inside += (inside.empty() ? "" : " ") + more;
  return name + (inside.empty() ? "" : " (" + inside + ")");
}

std::string BlockDevice::describe() const {
  std::string text = title();
  if (below.empty()) return text;
  text += " on ";
  for (size_t i = 0; i < below.size(); i++) {
    const bool several = below.size() > 1 && !below[i].below.empty();
    text += (i ? ", " : "") + (several ? "[" + below[i].describe() + "]" : below[i].describe());
  }
  return text;
}

std::optional<BlockDevice> read_block_device(const sysfs::Tree& tree, dev_t number) {
  auto path =
      tree.real("/sys/dev/block/" + std::to_string(major(number)) + ":" + std::to_string(minor(number)));
  if (!path) return std::nullopt;
  return Reader(tree).read(*path, 0);
}

}  // namespace storage
