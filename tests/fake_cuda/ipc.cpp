// Memory of other processes, by IPC handles.
#include <cstdlib>

#include "driver.h"

using namespace fake_cuda;

/// A handle names the allocation alone, as CUDA's do.
CUDA_EXPORT Error cuIpcGetMemHandle(hip::IpcMemHandle* handle, void* p) {
  ENTER();
  void* base = nullptr;
  size_t size = 0;
  if (cuMemGetAddressRange_v2(&base, &size, p) != hip::kSuccess) return hip::kErrorInvalidValue;
  Error error = forward("hipIpcGetMemHandle", handle, base);
  if (getenv("FAKE_CUDA_FULL_IPC_HANDLES")) handle->reserved[60] = 1;
  return error;
}
CUDA_EXPORT Error cuIpcOpenMemHandle_v2(void** out, hip::IpcMemHandle handle, unsigned flags) {
  ENTER();
  record("cuIpcOpenMemHandle", "flags %u tail %d", flags, handle.reserved[60]);
  if (flags != 1) return hip::kErrorInvalidValue;
  return forward("hipIpcOpenMemHandle", out, handle, 1u);
}
CUDA_EXPORT Error cuIpcCloseMemHandle(void* p) {
  ENTER();
  record("cuIpcCloseMemHandle", "%p", p);
  void* base = nullptr;
  size_t size = 0;
  if (forward("hipMemGetAddressRange", &base, &size, p) != hip::kSuccess || base != p)
    return hip::kErrorInvalidValue;
  return forward("hipIpcCloseMemHandle", p);
}
