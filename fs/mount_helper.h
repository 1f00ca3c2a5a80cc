// Called by mount(8) as mount.fuse.hipfile-fuse, from the command line, fstab or systemd.
#pragma once

#include <string>
#include <vector>

namespace fs {

/// What mount(8) asks a helper for: SPEC DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE].
struct MountCall {
  std::vector<std::string> arguments;  ///< the daemon's command line for it
  bool fake = false;                   ///< only to be tried
  bool remount = false;                ///< of what is mounted already: the kernel's business alone
  std::string options, directory;
};

/// Whether a program of this name is called as a helper.
bool is_mount_helper(const std::string& program);
MountCall parse_mount_call(const std::vector<std::string>& arguments);

}  // namespace fs
