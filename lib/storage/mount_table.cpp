#include "storage/mount_table.h"

#include <libmount/libmount.h>
#include <poll.h>

namespace storage {
namespace {

constexpr char kMountInfo[] = "/proc/self/mountinfo";

std::string text(const char* t) { return t ? t : ""; }

std::optional<MountFacts> look_up(dev_t device) {
  std::unique_ptr<libmnt_table, void (*)(libmnt_table*)> table(mnt_new_table_from_file(kMountInfo),
                                                               mnt_unref_table);
  if (!table) return std::nullopt;
  libmnt_fs* fs = mnt_table_find_devno(table.get(), device, MNT_ITER_FORWARD);
  if (!fs) return std::nullopt;
  MountFacts facts{
      text(mnt_fs_get_fstype(fs)), text(mnt_fs_get_source(fs)), text(mnt_fs_get_fs_options(fs)), {}};
  facts.data_mode = parse_data_mode(facts.options);
  return facts;
}

}  // namespace

DataMode parse_data_mode(const std::string& options) {
  char* value = nullptr;
  size_t length = 0;
  if (mnt_optstr_get_option(options.c_str(), "data", &value, &length) != 0) return DataMode::ordered;
  std::string mode(value ? value : "", length);
  if (mode == "ordered") return DataMode::ordered;
  if (mode == "writeback") return DataMode::writeback;
  if (mode == "journal") return DataMode::journal;
  return DataMode::unknown;
}

MountTable::MountTable() : mountinfo_(::open(kMountInfo, O_RDONLY | O_CLOEXEC)) {}
MountTable::~MountTable() = default;

// The kernel flags mountinfo with POLLPRI after every change, once per reader.
bool MountTable::changed() {
  if (!mountinfo_) return true;
  pollfd p{mountinfo_.get(), POLLPRI, 0};
  return poll(&p, 1, 0) > 0 && p.revents & POLLPRI;
}

std::optional<MountFacts> MountTable::find(dev_t device) {
  std::lock_guard lock(mutex_);
  if (changed()) known_.clear();
  auto it = known_.find(device);
  if (it == known_.end()) it = known_.emplace(device, look_up(device)).first;
  return it->second;
}

}  // namespace storage
