// Which file system a device number belongs to, from the kernel's mount table.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "posix/fd.h"

namespace storage {

/// How ext4 treats file data.
enum class DataMode { ordered, writeback, journal, unknown };

struct MountFacts {
  std::string type;     ///< "ext4", "xfs", "overlay", ...
  std::string source;   ///< "/dev/nvme0n1p2", "tmpfs", ...
  std::string options;  ///< of the file system
  DataMode data_mode = DataMode::ordered;
};

/// The `data=` option of ext4; ordered when there is none.
DataMode parse_data_mode(const std::string& options);

/// Cached, and read again when the kernel says that mounts changed. Thread-safe.
class MountTable {
 public:
  MountTable();
  ~MountTable();
  MountTable(const MountTable&) = delete;
  MountTable& operator=(const MountTable&) = delete;
  /// The mount whose st_dev is `device`; nothing for devices without an entry (btrfs subvolumes, other
  /// namespaces).
  std::optional<MountFacts> find(dev_t device);

 private:
  bool changed();
  std::mutex mutex_;
  posix::Fd mountinfo_;
  std::map<dev_t, std::optional<MountFacts>> known_;
};

}  // namespace storage
