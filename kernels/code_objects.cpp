#include "kernels/code_objects.h"

// KERNELS_AMDGPU and KERNELS_PTX are the files, where there are such.
#define KERNELS_EMBED(name, file)    \
  asm(".pushsection .rodata,\"a\"\n" \
      ".balign 4096\n"               \
      ".hidden kernels_" name        \
      "_begin\n"                     \
      ".globl kernels_" name         \
      "_begin\n"                     \
      "kernels_" name                \
      "_begin:\n"                    \
      ".incbin \"" file              \
      "\"\n"                         \
      ".hidden kernels_" name        \
      "_end\n"                       \
      ".globl kernels_" name         \
      "_end\n"                       \
      "kernels_" name                \
      "_end:\n"                      \
      ".byte 0\n"                    \
      ".popsection\n")

#ifdef KERNELS_AMDGPU
KERNELS_EMBED("amdgpu", KERNELS_AMDGPU);
#endif
#ifdef KERNELS_PTX
KERNELS_EMBED("ptx", KERNELS_PTX);
#endif

extern "C" const std::byte kernels_amdgpu_begin[], kernels_amdgpu_end[], kernels_ptx_begin[],
    kernels_ptx_end[];

namespace kernels {

std::span<const std::byte> amdgpu_bundle() {
#ifdef KERNELS_AMDGPU
  return {kernels_amdgpu_begin, kernels_amdgpu_end};
#else
  return {};
#endif
}

std::span<const std::byte> ptx() {
#ifdef KERNELS_PTX
  return {kernels_ptx_begin, kernels_ptx_end + 1};
#else
  return {};
#endif
}

}  // namespace kernels
