// Copies and fills.
#include "driver.h"

using namespace fake_cuda;

namespace {

Error copy(const char* name, void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  ENTER();
  record(name, "%zu", bytes);
  return forward("hipMemcpy", dst, src, bytes, kind);
}
Error copy_async(const char* name, void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                 hip::Stream stream) {
  ENTER();
  record(name, "%zu on %p", bytes, static_cast<void*>(stream));
  return forward("hipMemcpyAsync", dst, src, bytes, kind, stream);
}

}  // namespace

CUDA_EXPORT Error cuMemcpy(void* dst, const void* src, size_t n) {
  return copy("cuMemcpy", dst, src, n, hip::kMemcpyDefault);
}
CUDA_EXPORT Error cuMemcpyHtoD_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyHtoD", dst, src, n, hip::kMemcpyHostToDevice);
}
CUDA_EXPORT Error cuMemcpyDtoH_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyDtoH", dst, src, n, hip::kMemcpyDeviceToHost);
}
CUDA_EXPORT Error cuMemcpyDtoD_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyDtoD", dst, src, n, hip::kMemcpyDeviceToDevice);
}
CUDA_EXPORT Error cuMemcpyAsync(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyAsync", dst, src, n, hip::kMemcpyDefault, s);
}
CUDA_EXPORT Error cuMemcpyHtoDAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyHtoDAsync", dst, src, n, hip::kMemcpyHostToDevice, s);
}
CUDA_EXPORT Error cuMemcpyDtoHAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyDtoHAsync", dst, src, n, hip::kMemcpyDeviceToHost, s);
}
CUDA_EXPORT Error cuMemcpyDtoDAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyDtoDAsync", dst, src, n, hip::kMemcpyDeviceToDevice, s);
}
CUDA_EXPORT Error cuMemcpyPeer(void* dst, Context* to, const void* src, Context* from, size_t n) {
  ENTER();
  record("cuMemcpyPeer", "%d from %d", to->device, from->device);
  return forward("hipMemcpyPeer", dst, to->device, src, from->device, n);
}
CUDA_EXPORT Error cuMemcpyPeerAsync(void* dst, Context* to, const void* src, Context* from, size_t n,
                                    hip::Stream stream) {
  ENTER();
  record("cuMemcpyPeerAsync", "%d from %d", to->device, from->device);
  return forward("hipMemcpyPeerAsync", dst, to->device, src, from->device, n, stream);
}
CUDA_EXPORT Error cuMemsetD8_v2(void* dst, unsigned char value, size_t n) {
  ENTER();
  record("cuMemsetD8");
  return forward("hipMemset", dst, static_cast<int>(value), n);
}
CUDA_EXPORT Error cuMemsetD8Async(void* dst, unsigned char value, size_t n, hip::Stream stream) {
  ENTER();
  record("cuMemsetD8Async");
  return forward("hipMemsetAsync", dst, static_cast<int>(value), n, stream);
}
