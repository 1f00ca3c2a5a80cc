// What of this machine lets storage and GPU memory talk directly, and what does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dmabuf_probe.h"
#include "engine/verdict.h"
#include "gpu/device_facts.h"
#include "hip_libraries.h"
#include "storage/extents.h"
#include "storage/mount_table.h"

namespace check {

enum class Answer { no, yes, unverified };
const char* name(Answer answer);

struct VolumeCheck {
  std::string mountpoint, type, source;
  std::string backing;  ///< one word for the topmost layer: "nvme", "lvm", "crypt", ...
  std::string stack;    ///< all of it
  Answer direct_io = Answer::unverified;
  Answer hipfile = Answer::no;  ///< unverified: only the driver can tell
  std::vector<engine::Objection> objections;
};

struct SystemCheck {
  gpu::KernelFacts kernel;
  std::vector<HipLibrary> libraries;
  std::vector<gpu::DeviceFacts> gpus;
  std::vector<VolumeCheck> volumes;    ///< those that lie on block devices, each once
  std::optional<DmabufAnswer> dmabuf;  ///< if it was tried

  bool kernel_ok() const { return kernel.p2pdma == true; }
  bool runtime_ok() const;
  bool driver_ok() const { return kernel.ais == true; }
  bool volume_ok() const;
  bool all_ok() const { return kernel_ok() && runtime_ok() && driver_ok() && volume_ok(); }
  bool has_virtual_function() const;
  /// What to change to get the direct path, most general first; empty if there is nothing.
  std::vector<std::string> advice() const;
};

/// `root`: where /proc, /sys and the mount points are looked for; "" for this machine. Needs no privilege.
SystemCheck check_system(const std::string& root, std::vector<HipLibrary> libraries);

struct FileCheck {
  std::string path;
  std::string problem;        ///< why nothing can be said; "" if something can
  std::string told_by_mount;  ///< what a hipfile-fuse mount says, where the file behind is out of reach
  std::vector<engine::Verdict> verdicts;  ///< one for each GPU; one without if there is none
  std::optional<storage::ExtentFacts> extents;
  std::optional<DmabufAnswer> dmabuf;  ///< if it was tried

  /// Whether peer-to-peer DMA would be used for at least one GPU.
  bool ok() const;
};

/// For a file, or a directory in the place of a file in it. On a hipfile-fuse mount, the file behind it is judged.
FileCheck check_file(const std::string& path, const SystemCheck& system);
/// io_uring's registered dma-bufs with this file, or block device; nothing where it cannot be opened with O_DIRECT.
std::optional<DmabufAnswer> try_dmabuf(const std::string& path, DmabufCalls& calls);

}  // namespace check
