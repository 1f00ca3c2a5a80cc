#include "engine/device_pages.h"

#include <algorithm>

#include "engine/layers.h"

namespace engine {
namespace {

using storage::BlockDevice;
using storage::BlockKind;

// As Linux 7.3 does; MD of levels without parity and NVMe multipath pass such pages on in recent kernels only.
LayerJudgement of_layer(const BlockDevice& device) {
  const bool without_parity =
      device.detail == "raid0" || device.detail == "raid1" || device.detail == "raid10";
  const bool recent_kernels_pass =
      device.kind == BlockKind::nvme_multipath || (device.kind == BlockKind::md && without_parity);
  return {reason_of(device), !recent_kernels_pass};
}

void add(std::vector<Objection>& all, const LayerJudgement& judgement, const std::string& subject) {
  if (judgement.reason == Reason::none) return;
  auto same = [&](const Objection& o) { return o.reason == judgement.reason && o.subject == subject; };
  if (std::none_of(all.begin(), all.end(), same))
    all.push_back({judgement.reason, judgement.certain, subject});
}

void add_stack(std::vector<Objection>& all, const BlockDevice& device) {
  const LayerJudgement judgement = of_layer(device);
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
