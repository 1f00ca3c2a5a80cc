#include "system.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <set>

#include "mount_bypass.h"

namespace check {
namespace {

using storage::BlockDevice;
using storage::BlockKind;

constexpr uint64_t kTypicalLength = uint64_t{64} << 20;
constexpr uint64_t kWellAligned = uint64_t{1} << 21;
constexpr size_t kLongestAttribute = 65536;

// The words of ROCm's tool for what a volume lies on, and more of the kind.
const char* backing_word(BlockKind kind) {
  switch (kind) {
    case BlockKind::nvme:
      return "nvme";
    case BlockKind::nvme_multipath:
    case BlockKind::dm_multipath:
      return "mpath";
    case BlockKind::nvme_fabrics:
      return "nvmeof";
    case BlockKind::virtio:
      return "virtio";
    case BlockKind::scsi:
      return "scsi";
    case BlockKind::ata:
      return "sata";
    case BlockKind::usb:
      return "usb";
    case BlockKind::mmc:
      return "mmc";
    case BlockKind::network:
      return "network";
    case BlockKind::memory:
      return "ram";
    case BlockKind::persistent_memory:
      return "pmem";
    case BlockKind::loop:
      return "loop";
    case BlockKind::md:
      return "md";
    case BlockKind::linear:
    case BlockKind::striped:
    case BlockKind::lvm_raid:
    case BlockKind::thin:
    case BlockKind::snapshot:
      return "lvm";
    case BlockKind::cache:
      return "cache";
    case BlockKind::crypt:
      return "crypt";
    case BlockKind::checked:
    case BlockKind::device_mapper:
      return "dm";
    case BlockKind::zfs_volume:
      return "zvol";
    case BlockKind::partition:
    case BlockKind::other:
      break;
  }
  return "?";
}

std::string backing_of(const storage::Volume& volume) {
  if (volume.devices.empty()) return "?";
  const BlockDevice* device = &volume.devices[0];
  while (device->kind == BlockKind::partition && !device->below.empty()) device = &device->below[0];
  return backing_word(device->kind);
}

bool on_block_devices(const storage::Volume& volume) {
  return !volume.devices.empty() || volume.mount.source.starts_with("/dev/");
}

// Every namespace shows a volume many times; the first mount of it will do.
std::string identity(const storage::Volume& volume) {
  return volume.devices.empty() ? volume.mount.source : std::to_string(volume.devices[0].number);
}

VolumeCheck check_volume(const std::string& root, storage::MountTable& mounts,
                         const std::shared_ptr<const storage::Volume>& volume) {
  VolumeCheck check;
  check.mountpoint = volume->mount.target;
  check.type = volume->mount.type;
  check.source = volume->mount.source;
  check.backing = backing_of(*volume);
  check.stack = volume->describe();
  storage::FileFacts file;
  posix::Fd directory(open((root + check.mountpoint).c_str(), O_PATH | O_CLOEXEC));
  if (auto facts =
          directory ? storage::examine_directory(directory.get(), mounts) : posix::failure(errno, "")) {
    file = *facts;
    if (!facts->align_assumed) check.direct_io = facts->offset_align ? Answer::yes : Answer::no;
  }
  file.kind = storage::FileKind::regular;
  file.file_system = volume->mount.type;
  file.volume = volume;
  check.objections = engine::objections(file, nullptr, {}, engine::Policy());
  auto certain = [](const engine::Objection& o) { return o.certain; };
  check.hipfile =
      check.direct_io == Answer::no || std::any_of(check.objections.begin(), check.objections.end(), certain)
          ? Answer::no
      : check.objections.empty() ? Answer::yes
                                 : Answer::unverified;
  return check;
}

void add_once(std::vector<std::string>& lines, const std::string& line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

std::string sentence(const std::string& about, const engine::Objection& objection) {
  const std::string advice = engine::advice(objection.reason);
  return about + objection.text() + (advice.empty() ? "" : "; " + advice);
}

engine::Situation situation_of(const storage::FileFacts& file, uint64_t length, const gpu::DeviceFacts* gpu,
                               bool runtime_has_ais) {
  engine::Situation s;
  s.length = length;
  s.address = kWellAligned;
  s.file = file.kind;
  s.file_objection = engine::refuse_file(file, engine::Policy());
  s.device_objection = gpu ? engine::refuse_device(*gpu) : engine::Reason::no_gpu;
  s.offset_align = file.offset_align;
  s.memory_align = file.memory_align;
  s.memory_is_pages = gpu && gpu->integrated;
  s.runtime_has_ais = runtime_has_ais;
  return s;
}

// What the daemon of a hipfile-fuse mount says; "" elsewhere.
std::string ask_mount(const std::string& path) {
  std::string text(kLongestAttribute, '\0');
  const ssize_t n = getxattr(path.c_str(), "user.hipfile.explain", text.data(), text.size());
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace

const char* name(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "unverified";
}

bool SystemCheck::runtime_ok() const {
  return std::any_of(libraries.begin(), libraries.end(), [](const HipLibrary& l) { return l.ais; });
}
bool SystemCheck::volume_ok() const {
  return std::any_of(volumes.begin(), volumes.end(),
                     [](const VolumeCheck& v) { return v.hipfile == Answer::yes; });
}
bool SystemCheck::has_virtual_function() const {
  return std::any_of(gpus.begin(), gpus.end(), [](const gpu::DeviceFacts& d) { return d.virtual_function; });
}

std::vector<std::string> SystemCheck::advice() const {
  std::vector<std::string> lines;
  if (kernel.p2pdma == false)
    lines.push_back(sentence("", {engine::Reason::kernel_without_p2pdma, true, ""}));
  if (gpus.empty()) lines.push_back(sentence("", {engine::Reason::no_gpu, true, ""}));
  for (const auto& gpu : gpus)
    if (const auto reason = engine::refuse_device(gpu); reason != engine::Reason::none)
      lines.push_back(sentence("GPU " + gpu.address + ": ", {reason, true, ""}));
  if (libraries.empty())
    lines.push_back("no HIP runtime was found; " +
                    std::string(engine::advice(engine::Reason::no_runtime_ais)));
  else if (!runtime_ok())
    lines.push_back(sentence("", {engine::Reason::no_runtime_ais, true, ""}));
  for (const auto& volume : volumes) {
    for (const auto& objection : volume.objections)
      add_once(lines, sentence(volume.mountpoint + (objection.certain ? ": " : ": perhaps, "), objection));
    if (volume.direct_io == Answer::no && volume.objections.empty())
      lines.push_back(sentence(volume.mountpoint + ": ", {engine::Reason::no_direct_io, true, ""}));
  }
  return lines;
}

SystemCheck check_system(const std::string& root, std::vector<HipLibrary> libraries) {
  SystemCheck system;
  const sysfs::Tree tree(root);
  system.kernel = gpu::read_kernel(tree);
  system.libraries = std::move(libraries);
  system.gpus = gpu::read_devices(tree);
  storage::MountTable mounts(root);
  std::set<std::string> seen;
  for (const auto& volume : mounts.all())
    if (on_block_devices(*volume) && seen.insert(identity(*volume)).second)
      system.volumes.push_back(check_volume(root, mounts, volume));
  return system;
}

bool FileCheck::ok() const {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [](const engine::Verdict& v) { return v.plan.route() == engine::Route::peer; });
}

FileCheck check_file(const std::string& path, const SystemCheck& system) {
  FileCheck check;
  check.path = path;
  posix::Fd named(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat st;
  if (!named || fstat(named.get(), &st) < 0) {
    check.problem = strerror(errno);
    return check;
  }
  // Reading is not needed, but some things are told only of files that are open.
  posix::Fd opened;
  if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
    if (auto again = posix::reopen(named.get(), O_RDONLY | O_NONBLOCK)) opened = std::move(*again);
  if (auto behind = opened ? api::open_behind_mount(opened.get()) : std::nullopt)
    opened = std::move(*behind);
  else
    check.told_by_mount = ask_mount(path);
  if (!check.told_by_mount.empty()) return check;
  const int fd = opened ? opened.get() : named.get();
  storage::MountTable mounts;
  auto facts = S_ISDIR(st.st_mode) ? storage::examine_directory(fd, mounts) : storage::examine(fd, mounts);
  if (!facts) {
    check.problem = facts.error().text();
    return check;
  }
  const uint64_t length = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : kTypicalLength;
  auto judge_for = [&](const gpu::DeviceFacts* gpu) {
    std::vector<engine::DiskPath> paths;
    if (gpu && facts->volume) paths = engine::disk_paths(mounts.tree(), *facts->volume, *gpu);
    check.verdicts.push_back(engine::judge(situation_of(*facts, length, gpu, system.runtime_ok()), *facts,
                                           gpu, paths, engine::Policy()));
  };
  for (const auto& gpu : system.gpus) judge_for(&gpu);
  if (system.gpus.empty()) judge_for(nullptr);
  if (opened && S_ISREG(st.st_mode))
    if (auto extents = storage::examine_extents(fd, 0, length)) check.extents = *extents;
  return check;
}

std::optional<DmabufAnswer> try_dmabuf(const std::string& path, DmabufCalls& calls) {
  struct stat st;
  if (stat(path.c_str(), &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))) return std::nullopt;
  posix::Fd file(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  return file ? std::optional(test_dmabuf(calls, file.get())) : std::nullopt;
}

}  // namespace check
