// HIP runtimes installed here, and whether they can do AIS.
#pragma once

#include <string>
#include <vector>

namespace check {

struct HipLibrary {
  std::string path;
  bool ais = false;  ///< it has hipAmdFileRead and hipAmdFileWrite
};

/// Where ROCm and distributions put libamdhip64: LD_LIBRARY_PATH, ROCM_PATH and its like, /opt/rocm*, and the loader's own
/// directories. Each library once.
std::vector<std::string> find_hip_libraries();

/// Loads each in a process of its own, so that one that crashes or prints does no harm. Those that cannot be loaded and
/// the stand-ins of this project are left out.
std::vector<HipLibrary> examine_hip_libraries(const std::vector<std::string>& paths);

}  // namespace check
