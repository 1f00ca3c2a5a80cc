// Memory of devices and of the host.
#include "driver.h"

using namespace fake_cuda;

CUDA_EXPORT Error cuMemAlloc_v2(void** out, size_t size) {
  ENTER();
  record("cuMemAlloc", "device %d size %zu", current_device(), size);
  return size ? forward("hipMalloc", out, size) : hip::kErrorInvalidValue;
}
CUDA_EXPORT Error cuMemFree_v2(void* p) {
  ENTER();
  record("cuMemFree");
  return forward("hipFree", p);
}
CUDA_EXPORT Error cuMemAllocManaged(void** out, size_t size, unsigned flags) {
  ENTER();
  if (flags != 1 && flags != 2) return hip::kErrorInvalidValue;
  return forward("hipMallocManaged", out, size, flags);
}
CUDA_EXPORT Error cuMemAllocAsync(void** out, size_t size, hip::Stream stream) {
  ENTER();
  return forward("hipMallocAsync", out, size, stream);
}
CUDA_EXPORT Error cuMemFreeAsync(void* p, hip::Stream stream) {
  ENTER();
  return forward("hipFreeAsync", p, stream);
}
CUDA_EXPORT Error cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER();
  return forward("hipMemGetInfo", free_bytes, total);
}
CUDA_EXPORT Error cuMemHostAlloc(void** out, size_t size, unsigned flags) {
  ENTER();
  record("cuMemHostAlloc", "flags %u", flags);
  return flags & ~7u ? hip::kErrorInvalidValue : forward("hipHostMalloc", out, size, flags);
}
CUDA_EXPORT Error cuMemFreeHost(void* p) {
  ENTER();
  record("cuMemFreeHost");
  return forward("hipHostFree", p);
}
CUDA_EXPORT Error cuMemHostRegister_v2(void* p, size_t size, unsigned flags) {
  ENTER();
  record("cuMemHostRegister", "flags %u", flags);
  return forward("hipHostRegister", p, size, flags);
}
CUDA_EXPORT Error cuMemHostUnregister(void* p) {
  ENTER();
  return forward("hipHostUnregister", p);
}
CUDA_EXPORT Error cuMemHostGetDevicePointer_v2(void** out, void* p, unsigned flags) {
  ENTER();
  return forward("hipHostGetDevicePointer", out, p, flags);
}
CUDA_EXPORT Error cuMemHostGetFlags(unsigned* flags, void* p) {
  ENTER();
  return forward("hipHostGetFlags", flags, p);
}
