// Which file system a file belongs to, and what that lies on, from the kernel's mount table and sysfs.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "posix/fd.h"
#include "storage/block_device.h"

struct libmnt_fs;
struct libmnt_table;

namespace storage {

/// How ext4 treats file data.
enum class DataMode { ordered, writeback, journal, unknown };

struct MountFacts {
  std::string type;     ///< "ext4", "xfs", "overlay", ...
  std::string source;   ///< "/dev/nvme0n1p2", "tmpfs", ...
  std::string options;  ///< of the file system
  DataMode data_mode = DataMode::ordered;
  std::string target = {};     ///< where it is mounted
  std::string transport = {};  ///< of a network file system: "tcp", "rdma", ...; "" otherwise
};

/// The `data=` option of ext4; ordered when there is none.
DataMode parse_data_mode(const std::string& options);
/// The value of an option, "" if it is there without one; nothing if it is not there.
std::optional<std::string> find_option(const std::string& options, const std::string& name);
/// The directories of an overlay file system, the upper one first.
std::vector<std::string> overlay_layers(const std::string& options);

/// A file system and what it lies on.
struct Volume {
  /// A directory that an overlay file system shows.
  struct Layer {
    std::string path;
    std::shared_ptr<const Volume> volume;  ///< null if it is out of sight here (containers)
  };
  MountFacts mount;
  std::vector<BlockDevice> devices;  ///< several for btrfs; none for file systems without
  std::vector<Layer> layers;

  /// "ext4 (data=ordered) on dm-0 (LVM linear vg-home) on ...", for people.
  std::string describe() const;
};

/// Cached, and read again when the kernel says that mounts or block devices changed. Thread-safe.
class MountTable {
 public:
  /// `root`: where /proc and /sys are looked for; "" for the machine itself.
  explicit MountTable(const std::string& root = "");
  ~MountTable();
  MountTable(const MountTable&) = delete;
  MountTable& operator=(const MountTable&) = delete;
  /// The mount whose st_dev is `device`; nothing for devices without an entry (btrfs subvolumes, other
  /// namespaces).
  std::optional<MountFacts> find(dev_t device);

  /// The volume of a file, by the number of its mount (statx), or, where that is 0 or not in this namespace, by its
  /// device. Null if neither is known.
  std::shared_ptr<const Volume> volume(uint64_t mount_id, dev_t device);
  /// What a block special file of this number stands for.
  std::shared_ptr<const Volume> block_volume(dev_t number);
  /// All mounts that a program in this namespace sees, in the kernel's order.
  std::vector<std::shared_ptr<const Volume>> all();
  const sysfs::Tree& tree() const { return tree_; }

 private:
  using Table = std::unique_ptr<libmnt_table, void (*)(libmnt_table*)>;
  bool changed();
  void refresh();
  Table read_table() const;
  std::shared_ptr<const Volume> make_volume(libmnt_table* table, libmnt_fs* entry, unsigned level);
  std::vector<BlockDevice> devices_of(const MountFacts& mount, dev_t device) const;

  const sysfs::Tree tree_;
  const std::string mountinfo_path_;
  std::mutex mutex_;
  posix::Fd mountinfo_, events_;
  std::string last_event_;
  std::map<dev_t, std::optional<MountFacts>> known_;
  std::map<std::pair<uint64_t, dev_t>, std::shared_ptr<const Volume>> volumes_;
  std::map<dev_t, std::shared_ptr<const Volume>> block_volumes_;
};

}  // namespace storage
