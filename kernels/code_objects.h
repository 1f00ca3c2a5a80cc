// The device code that was built into this program.
#pragma once

#include <cstddef>
#include <span>

namespace kernels {

/// A clang offload bundle of code objects (version 4), one for each AMD target that was built; hipModuleLoadData
/// finds that of its device. Empty if there was no fit compiler. Static data.
std::span<const std::byte> amdgpu_bundle();

/// PTX, which NVIDIA's driver compiles for its device. Ends with a NUL. Empty if there was no fit compiler. Static
/// data.
std::span<const std::byte> ptx();

}  // namespace kernels
