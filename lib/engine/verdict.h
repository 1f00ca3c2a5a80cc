// What stands between a file and a GPU's memory: one judgement for the planner, for people and for tools.
#pragma once

#include <string>
#include <vector>

#include "engine/objection.h"
#include "engine/plan.h"
#include "gpu/device_facts.h"
#include "storage/file.h"
#include "sysfs/pci.h"

namespace engine {

/// From which side a file is judged.
struct Policy {
  bool any_file_system = false;  ///< only the file itself can speak against it, not file system or volume
  bool real_device = true;       ///< false for a stand-in runtime, whose peer route does not depend on disks
};

/// The way between a disk under the file and the GPU.
struct DiskPath {
  std::string disk;
  sysfs::PeerDistance distance;
};

/// The first certain objection against peer-to-peer DMA that lies in the file and its volume; none if there is none.
Reason refuse_file(const storage::FileFacts& file, const Policy& policy);
/// The same of the GPU. A device that is not known is not refused.
Reason refuse_device(const gpu::DeviceFacts& device);

/// For each disk under the volume that has a PCI address.
std::vector<DiskPath> disk_paths(const sysfs::Tree& tree, const storage::Volume& volume,
                                 const gpu::DeviceFacts& device);

/// Everything that stands against peer-to-peer DMA between the two, the GPU's side first. `device` may be null.
std::vector<Objection> objections(const storage::FileFacts& file, const gpu::DeviceFacts* device,
                                  const std::vector<DiskPath>& paths, const Policy& policy);

struct Verdict {
  struct Line {
    Route route = Route::none;
    Reason reason = Reason::none;  ///< none for the route that is taken
    std::string why;               ///< the reason, with what it is about
    std::string advice;            ///< what would have to change; "" where nothing can
  };
  Plan plan;
  std::vector<Line> routes;             ///< best first, up to the one that is taken; all if none is
  std::vector<Objection> peer;          ///< everything against peer-to-peer DMA apart from the request itself
  std::vector<Objection> device_pages;  ///< the same against direct I/O with pages of a PCI device
  std::string volume;                   ///< what the file lies on, in one line
  std::string device;                   ///< the GPU, in one line

  /// Several lines: "route: ...", one line per better route, what it was judged by.
  std::string text() const;
};

/// What `plan(situation)` does, and why. `device` may be null: no GPU, or not AMD's.
Verdict judge(const Situation& situation, const storage::FileFacts& file, const gpu::DeviceFacts* device,
              const std::vector<DiskPath>& paths, const Policy& policy);

}  // namespace engine
