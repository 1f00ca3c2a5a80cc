#include "storage/mount_table.h"

#include <libmount/libmount.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace storage {
namespace {

constexpr unsigned kMostOverlays = 4;  // overlays on overlays; Linux allows 2

std::string text(const char* t) { return t ? t : ""; }

MountFacts facts_of(libmnt_fs* fs) {
  MountFacts facts{
      text(mnt_fs_get_fstype(fs)), text(mnt_fs_get_source(fs)), text(mnt_fs_get_fs_options(fs)), {}};
  facts.data_mode = parse_data_mode(facts.options);
  facts.target = text(mnt_fs_get_target(fs));
  if (facts.type.starts_with("nfs")) facts.transport = find_option(facts.options, "proto").value_or("tcp");
  return facts;
}

libmnt_fs* find_by_id(libmnt_table* table, uint64_t id) {
  std::unique_ptr<libmnt_iter, void (*)(libmnt_iter*)> at(mnt_new_iter(MNT_ITER_FORWARD), mnt_free_iter);
  for (libmnt_fs* fs = nullptr; mnt_table_next_fs(table, at.get(), &fs) == 0;)
    if (static_cast<uint64_t>(mnt_fs_get_id(fs)) == id) return fs;
  return nullptr;
}

// A directory of overlayfs may contain colons and commas behind a backslash.
std::vector<std::string> split_unescaped(const std::string& list) {
  std::vector<std::string> parts{""};
  for (size_t i = 0; i < list.size(); i++) {
    if (list[i] == '\\' && i + 1 < list.size())
      parts.back() += list[++i];
    else if (list[i] == ':')
      parts.emplace_back();
    else
      parts.back() += list[i];
  }
  std::erase(parts, "");
  return parts;
}

}  // namespace

std::optional<std::string> find_option(const std::string& options, const std::string& name) {
  char* value = nullptr;
  size_t length = 0;
  if (mnt_optstr_get_option(options.c_str(), name.c_str(), &value, &length) != 0) return std::nullopt;
  return std::string(value ? value : "", length);
}

DataMode parse_data_mode(const std::string& options) {
  auto mode = find_option(options, "data");
  if (!mode || *mode == "ordered") return DataMode::ordered;
  if (*mode == "writeback") return DataMode::writeback;
  if (*mode == "journal") return DataMode::journal;
  return DataMode::unknown;
}

std::vector<std::string> overlay_layers(const std::string& options) {
  std::vector<std::string> layers;
  if (auto upper = find_option(options, "upperdir")) layers = split_unescaped(*upper);
  if (auto lower = find_option(options, "lowerdir"))
    for (auto& path : split_unescaped(*lower)) layers.push_back(std::move(path));
  // From Linux 6.8 on, each has an option of its own.
  std::string rest = options;
  for (char* at = rest.data(); at && *at;) {
    char *name = nullptr, *value = nullptr;
    size_t name_length = 0, value_length = 0;
    if (mnt_optstr_next_option(&at, &name, &name_length, &value, &value_length) != 0) break;
    const std::string key(name, name_length);
    if (key == "lowerdir+" || key == "datadir+")
      for (auto& path : split_unescaped(std::string(value ? value : "", value_length)))
        layers.push_back(std::move(path));
  }
  return layers;
}

std::string Volume::describe() const {
  std::string about = mount.type.empty() ? "block device" : mount.type;
  if (mount.type == "ext4")
    about += mount.data_mode == DataMode::ordered     ? " (data=ordered)"
             : mount.data_mode == DataMode::journal   ? " (data=journal)"
             : mount.data_mode == DataMode::writeback ? " (data=writeback)"
                                                      : " (data=?)";
  if (!mount.transport.empty()) about += " (" + mount.transport + ")";
  for (size_t i = 0; i < devices.size(); i++)
    about += (i ? ", " : mount.type.empty() ? " " : " on ") + devices[i].describe();
  for (size_t i = 0; i < layers.size(); i++)
    about += (i ? ", " : " over ") + layers[i].path +
             (layers[i].volume ? " (" + layers[i].volume->describe() + ")" : " (out of sight)");
  return about;
}

MountTable::MountTable(const std::string& root)
    : tree_(root),
      mountinfo_path_(tree_.root() + "/proc/self/mountinfo"),
      mountinfo_(::open(mountinfo_path_.c_str(), O_RDONLY | O_CLOEXEC)),
      events_(::open((tree_.root() + "/sys/kernel/uevent_seqnum").c_str(), O_RDONLY | O_CLOEXEC)) {
  changed();
}
MountTable::~MountTable() = default;

// The kernel flags mountinfo with POLLPRI after every change, once per reader; and it numbers the events of devices.
bool MountTable::changed() {
  bool differs = !mountinfo_;
  pollfd p{mountinfo_.get(), POLLPRI, 0};
  if (mountinfo_ && poll(&p, 1, 0) > 0 && p.revents & POLLPRI) differs = true;
  char number[32] = {};
  if (pread(events_.get(), number, sizeof number - 1, 0) > 0 && last_event_ != number) {
    last_event_ = number;
    differs = true;
  }
  return differs;
}

void MountTable::refresh() {
  if (!changed()) return;
  known_.clear();
  volumes_.clear();
  block_volumes_.clear();
}

MountTable::Table MountTable::read_table() const {
  return Table(mnt_new_table_from_file(mountinfo_path_.c_str()), mnt_unref_table);
}

std::optional<MountFacts> MountTable::find(dev_t device) {
  std::lock_guard lock(mutex_);
  refresh();
  auto it = known_.find(device);
  if (it != known_.end()) return it->second;
  Table table = read_table();
  libmnt_fs* entry = table ? mnt_table_find_devno(table.get(), device, MNT_ITER_FORWARD) : nullptr;
  return known_.emplace(device, entry ? std::optional(facts_of(entry)) : std::nullopt).first->second;
}

std::shared_ptr<const Volume> MountTable::volume(uint64_t mount_id, dev_t device) {
  std::lock_guard lock(mutex_);
  refresh();
  auto [it, is_new] = volumes_.try_emplace({mount_id, device});
  if (!is_new) return it->second;
  Table table = read_table();
  if (!table) return nullptr;
  libmnt_fs* entry = mount_id ? find_by_id(table.get(), mount_id) : nullptr;
  if (!entry) entry = mnt_table_find_devno(table.get(), device, MNT_ITER_FORWARD);
  if (entry) it->second = make_volume(table.get(), entry, 0);
  return it->second;
}

std::shared_ptr<const Volume> MountTable::block_volume(dev_t number) {
  std::lock_guard lock(mutex_);
  refresh();
  auto [it, is_new] = block_volumes_.try_emplace(number);
  if (!is_new) return it->second;
  auto volume = std::make_shared<Volume>();
  if (auto device = read_block_device(tree_, number)) volume->devices.push_back(std::move(*device));
  return it->second = std::move(volume);
}

std::vector<std::shared_ptr<const Volume>> MountTable::all() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Volume>> volumes;
  Table table = read_table();
  if (!table) return volumes;
  std::unique_ptr<libmnt_iter, void (*)(libmnt_iter*)> at(mnt_new_iter(MNT_ITER_FORWARD), mnt_free_iter);
  for (libmnt_fs* fs = nullptr; mnt_table_next_fs(table.get(), at.get(), &fs) == 0;)
    volumes.push_back(make_volume(table.get(), fs, 0));
  return volumes;
}

std::vector<BlockDevice> MountTable::devices_of(const MountFacts& mount, dev_t device) const {
  std::vector<BlockDevice> devices;
  if (auto own = read_block_device(tree_, device)) return {std::move(*own)};
  if (mount.type != "btrfs") return devices;
  // Its device number is made up; which devices it has stands in a directory named after its UUID.
  const std::string source = sysfs::base_name(mount.source);
  for (const auto& uuid : tree_.list("/sys/fs/btrfs")) {
    const std::string directory = "/sys/fs/btrfs/" + uuid + "/devices";
    bool is_this = false;
    devices.clear();
    for (const auto& name : tree_.list(directory)) {
      auto path = tree_.real(directory + "/" + name);
      unsigned major, minor;
      if (!path || sscanf(tree_.read(*path + "/dev").value_or("").c_str(), "%u:%u", &major, &minor) != 2)
        continue;
      if (name == source || tree_.read(*path + "/dm/name") == source) is_this = true;
      if (auto read = read_block_device(tree_, makedev(major, minor))) devices.push_back(std::move(*read));
    }
    if (is_this) return devices;
  }
  return {};
}

std::shared_ptr<const Volume> MountTable::make_volume(libmnt_table* table, libmnt_fs* entry, unsigned level) {
  auto volume = std::make_shared<Volume>();
  volume->mount = facts_of(entry);
  volume->devices = devices_of(volume->mount, mnt_fs_get_devno(entry));
  if (volume->mount.type != "overlay" || level == kMostOverlays) return volume;
  for (auto& path : overlay_layers(volume->mount.options)) {
    Volume::Layer layer{std::move(path), nullptr};
    struct stat st;
    if (stat((tree_.root() + layer.path).c_str(), &st) == 0)
      if (libmnt_fs* below = mnt_table_find_devno(table, st.st_dev, MNT_ITER_FORWARD))
        layer.volume = make_volume(table, below, level + 1);
    volume->layers.push_back(std::move(layer));
  }
  return volume;
}

}  // namespace storage
