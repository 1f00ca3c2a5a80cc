#include "engine/verdict.h"

#include <algorithm>

#include "engine/device_pages.h"
#include "engine/layers.h"

namespace engine {
namespace {

using storage::BlockDevice;
using storage::BlockKind;

// The driver looks at this many devices below a mapped one, and this deep (kfd_ais.c).
constexpr size_t kMostSlaves = 16;
constexpr unsigned kMostLayers = 4;

/// Takes objections one by one; true ends the search.
template <typename Sink>
class Search {
 public:
  Search(const Policy& policy, Sink& sink) : policy_(policy), sink_(sink) {}

  bool file(const storage::FileFacts& f) {
    if (f.encrypted && object(Reason::encrypted_file)) return true;
    if (f.verity && object(Reason::verified_file)) return true;
    if (f.compressed && object(Reason::compressed_file)) return true;
    if (f.inline_data && object(Reason::inline_data)) return true;
    if (f.journaled && object(Reason::journaled_data)) return true;
    if (policy_.any_file_system || f.kind == storage::FileKind::other) return false;
    if (f.kind == storage::FileKind::regular && file_system(f)) return true;
    if (!policy_.real_device || !f.volume) return false;
    for (const auto& device : f.volume->devices)
      if (stack(device, 0)) return true;
    return false;
  }

 private:
  bool object(Reason reason, bool certain = true, const BlockDevice* device = nullptr,
              const storage::Volume* volume = nullptr) {
    return sink_(reason, certain, device, volume);
  }

  bool file_system(const storage::FileFacts& f) {
    const storage::Volume* volume = f.volume.get();
    if (f.file_system == "xfs") return false;
    if (f.file_system != "ext4") return object(Reason::file_system, true, nullptr, volume);
    const bool ordered = volume && volume->mount.data_mode == storage::DataMode::ordered;
    return !ordered && !f.journaled && object(Reason::journaled_data, true, nullptr, volume);
  }

  bool stack(const BlockDevice& device, unsigned layer) {
    const bool mapped = device.kind != BlockKind::partition && !device.below.empty();
    if (mapped && (device.below.size() > kMostSlaves || layer >= kMostLayers))
      if (object(Reason::too_many_devices, true, &device)) return true;
    const auto [reason, certain] = of_layer(device);
    if (reason != Reason::none && object(reason, certain, &device)) return true;
    // What lies below something that stands in the way for good does not matter any more.
    if (reason != Reason::none && certain) return false;
    for (const auto& below : device.below)
      if (stack(below, layer + mapped)) return true;
    return false;
  }

  // LVM's plain targets pass it on; of others the driver finds out by itself.
  static LayerJudgement of_layer(const BlockDevice& device) {
    switch (device.kind) {
      case BlockKind::linear:
      case BlockKind::striped:
      case BlockKind::lvm_raid:
        return {};
      case BlockKind::thin:
      case BlockKind::snapshot:
      case BlockKind::cache:
      case BlockKind::device_mapper:
        return {reason_of(device), false};
      default:
        return {reason_of(device), true};
    }
  }

  const Policy& policy_;
  Sink& sink_;
};

std::string name_of(const BlockDevice* device, const storage::Volume* volume) {
  if (device) return device->title();
  return volume ? volume->describe() : "";
}

std::string with_blocks(const storage::FileFacts& file) {
  if (file.kind == storage::FileKind::other) return "neither a regular file nor a block device";
  std::string text = file.kind == storage::FileKind::block ? "block device" : "regular file";
  if (file.offset_align == 0) return text + ", no direct I/O";
  return text + ", direct I/O in blocks of " + std::to_string(file.offset_align) +
         " bytes, memory aligned to " + std::to_string(file.memory_align);
}

// A route that failed is explained by what made that likely.
std::string explain(const Verdict& verdict, Route route) {
  const Reason reason = verdict.plan.refused[static_cast<size_t>(route)];
  const auto& peer = verdict.peer;
  auto same = std::find_if(peer.begin(), peer.end(), [&](const Objection& o) { return o.reason == reason; });
  if (route == Route::peer && same != peer.end()) return same->text();
  std::string why = text(reason);
  if (reason != Reason::failed && reason != Reason::failed_before) return why;
  if (route == Route::pages && !verdict.device_pages.empty())
    return why + "; with pages of a PCI device because " + verdict.device_pages.front().text();
  if (route != Route::peer) return why;
  auto doubt = std::find_if(peer.begin(), peer.end(), [](const Objection& o) { return !o.certain; });
  return doubt == peer.end() ? why : why + "; probably because " + doubt->text();
}

// Without what has been said before.
std::string list(const char* heading, const std::vector<Objection>& objections, Reason said) {
  std::string lines;
  for (const auto& objection : objections)
    if (objection.reason != said)
      lines += std::string("  ") + (objection.certain ? "" : "perhaps, ") + objection.text() + "\n";
  return lines.empty() ? "" : heading + (":\n" + lines);
}

}  // namespace

Reason refuse_file(const storage::FileFacts& file, const Policy& policy) {
  Reason first = Reason::none;
  auto keep = [&first](Reason reason, bool certain, const BlockDevice*, const storage::Volume*) {
    if (certain) first = reason;
    return certain;
  };
  Search<decltype(keep)>(policy, keep).file(file);
  return first;
}

// The capability bit says that the driver has set AIS up, so nothing else matters then.
Reason refuse_device(const gpu::DeviceFacts& device) {
  if (device.ais == true || device.address.empty()) return Reason::none;
  if (device.virtual_function) return Reason::virtual_function;
  if (device.integrated || device.xgmi_to_cpu) return Reason::integrated_gpu;
  if (device.kernel_p2pdma == false) return Reason::kernel_without_p2pdma;
  if (device.ais_disabled) return Reason::ais_disabled;
  if (device.small_bar()) return Reason::small_bar;
  return Reason::gpu_without_ais;
}

std::vector<DiskPath> disk_paths(const sysfs::Tree& tree, const storage::Volume& volume,
                                 const gpu::DeviceFacts& device) {
  std::vector<DiskPath> paths;
  if (!device.pci) return paths;
  for (const auto& top : volume.devices)
    for (const BlockDevice* leaf : top.leaves()) {
      if (leaf->pci_address.empty()) continue;
      if (auto pci = sysfs::read_pci(tree, leaf->pci_address))
        paths.push_back({leaf->name, sysfs::peer_distance(tree, *pci, *device.pci)});
    }
  return paths;
}

std::vector<Objection> objections(const storage::FileFacts& file, const gpu::DeviceFacts* device,
                                  const std::vector<DiskPath>& paths, const Policy& policy) {
  std::vector<Objection> all;
  if (device)
    if (Reason reason = refuse_device(*device); reason != Reason::none)
      all.push_back({reason, true, device->describe()});
  auto add = [&all](Reason reason, bool certain, const BlockDevice* block, const storage::Volume* volume) {
    Objection objection{reason, certain, name_of(block, volume)};
    auto same = [&](const Objection& o) {
      return o.reason == reason && (!certain || o.subject == objection.subject);
    };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(objection));
    return false;
  };
  Search<decltype(add)>(policy, add).file(file);
  for (const auto& path : paths)
    if (path.distance.path == sysfs::PeerPath::not_permitted)
      all.push_back({Reason::no_peer_path, false, path.disk + ": " + path.distance.detail});
  return all;
}

std::string Verdict::text() const {
  std::string all = std::string("route: ") + name(plan.route()) + "\n";
  for (const auto& line : routes) {
    all += std::string(name(line.route)) + ": " + line.why;
    if (!line.advice.empty()) all += "; " + line.advice;
    all += "\n";
  }
  all += list("also against peer", peer, routes.empty() ? Reason::none : routes.front().reason);
  all += list("against pages of a PCI device", device_pages, Reason::none);
  for (const auto& [what, value] : {std::pair("volume: ", &volume), std::pair("device: ", &device)})
    if (!value->empty()) all += what + *value + "\n";
  return all;
}

Verdict judge(const Situation& situation, const storage::FileFacts& file, const gpu::DeviceFacts* device,
              const std::vector<DiskPath>& paths, const Policy& policy) {
  Verdict verdict;
  verdict.plan = plan(situation);
  verdict.peer = objections(file, device, paths, policy);
  verdict.device_pages = objections_to_device_pages(file);
  const Route taken = verdict.plan.route();
  for (Route route : {Route::peer, Route::pages, Route::store, Route::cached, Route::staged}) {
    if (route == Route::store && route != taken) continue;  // better for small reads alone, and they take it
    if (route == taken) {
      verdict.routes.push_back({route, Reason::none, "taken", ""});
      break;
    }
    const Reason reason = verdict.plan.refused[static_cast<size_t>(route)];
    verdict.routes.push_back({route, reason, explain(verdict, route), advice(reason)});
  }
  verdict.volume = with_blocks(file) + (file.volume ? "; " + file.volume->describe() : "");
  if (device) verdict.device = device->describe();
  for (const auto& path : paths)
    if (!path.distance.detail.empty()) verdict.device += "; to " + path.disk + ": " + path.distance.detail;
  return verdict;
}

}  // namespace engine
