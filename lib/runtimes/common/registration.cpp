// What programs built by hipcc call before main and around <<< >>>. Their code objects are for AMD GPUs, so there is
// nothing to keep: only launching a kernel fails.
#include <cstddef>
#include <cstdint>

#include "common/export.h"
#include "hip_abi/hip_abi.h"

HIP_EXPORT void** __hipRegisterFatBinary(const void*) {
  static void* registered;
  return &registered;
}
HIP_EXPORT void __hipUnregisterFatBinary(void**) {}
HIP_EXPORT void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*,
                                      void*, int*) {}
HIP_EXPORT void __hipRegisterVar(void**, void*, char*, char*, int, size_t, int, int) {}
struct Dim3 {
  uint32_t x, y, z;
};
thread_local struct {
  Dim3 grid, block;
  size_t shared_bytes;
  hip::Stream stream;
} pushed_call;
HIP_EXPORT hip::Error __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes,
                                                 hip::Stream stream) {
  pushed_call = {grid, block, shared_bytes, stream};
  return hip::kSuccess;
}
HIP_EXPORT hip::Error __hipPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_bytes,
                                                hip::Stream* stream) {
  *grid = pushed_call.grid;
  *block = pushed_call.block;
  *shared_bytes = pushed_call.shared_bytes;
  *stream = pushed_call.stream;
  return hip::kSuccess;
}
