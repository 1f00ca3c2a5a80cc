// Allocation and copies.
#include "runtime.h"

using cuda::call;

namespace {

constexpr unsigned kHostMallocFlags = 7;     // portable, mapped, write-combined; the rest is AMD's
constexpr unsigned kHostRegisterFlags = 15;  // portable, mapped, I/O memory, read-only

hip::Error copy_now(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  switch (kind) {
    case hip::kMemcpyHostToDevice:
      return call().cuMemcpyHtoD(dst, src, bytes);
    case hip::kMemcpyDeviceToHost:
      return call().cuMemcpyDtoH(dst, src, bytes);
    case hip::kMemcpyDeviceToDevice:
      return call().cuMemcpyDtoD(dst, src, bytes);
    case hip::kMemcpyHostToHost:
    case hip::kMemcpyDefault:
      return call().cuMemcpy(dst, src, bytes);
  }
  return hip::kErrorInvalidMemcpyDirection;
}

// CUDA returns from copies inside the device, and from small ones out of pageable memory, before they have happened;
// HIP does not. Another process that is told of the memory next must find the bytes there.
hip::Error copy(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  if (bytes == 0) return hip::kSuccess;
  if (!dst || !src) return hip::kErrorInvalidValue;
  hip::Error error = copy_now(dst, src, bytes, kind);
  return error == hip::kSuccess ? call().cuStreamSynchronize(nullptr) : error;
}

hip::Error copy_async(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind, hip::Stream stream) {
  if (bytes == 0) return hip::kSuccess;
  if (!dst || !src) return hip::kErrorInvalidValue;
  switch (kind) {
    case hip::kMemcpyHostToDevice:
      return call().cuMemcpyHtoDAsync(dst, src, bytes, stream);
    case hip::kMemcpyDeviceToHost:
      return call().cuMemcpyDtoHAsync(dst, src, bytes, stream);
    case hip::kMemcpyDeviceToDevice:
      return call().cuMemcpyDtoDAsync(dst, src, bytes, stream);
    case hip::kMemcpyHostToHost:
    case hip::kMemcpyDefault:
      return call().cuMemcpyAsync(dst, src, bytes, stream);
  }
  return hip::kErrorInvalidMemcpyDirection;
}

hip::Error copy_peer(void* dst, int to, const void* src, int from, size_t bytes, hip::Stream stream,
                     bool async) {
  if (!cuda::driver().valid(to) || !cuda::driver().valid(from)) return hip::kErrorInvalidDevice;
  if (bytes == 0) return hip::kSuccess;
  cuda::Context there = nullptr, here = nullptr;
  if (hip::Error error = cuda::primary_context(to, there); error != hip::kSuccess) return error;
  if (hip::Error error = cuda::primary_context(from, here); error != hip::kSuccess) return error;
  if (async) return call().cuMemcpyPeerAsync(dst, there, src, here, bytes, stream);
  hip::Error error = call().cuMemcpyPeer(dst, there, src, here, bytes);
  return error == hip::kSuccess ? call().cuStreamSynchronize(nullptr) : error;
}

hip::Error fill(void* dst, int value, size_t bytes) {
  if (bytes == 0) return hip::kSuccess;
  hip::Error error = call().cuMemsetD8(dst, static_cast<unsigned char>(value), bytes);
  return error == hip::kSuccess ? call().cuStreamSynchronize(nullptr) : error;
}

hip::Error allocate(void** out, size_t size) {
  if (!out) return hip::kErrorInvalidValue;
  *out = nullptr;
  return size ? call().cuMemAlloc(out, size) : hip::kSuccess;
}

hip::Error allocate_host(void** out, size_t size, unsigned flags) {
  if (!out) return hip::kErrorInvalidValue;
  *out = nullptr;
  return size ? call().cuMemHostAlloc(out, size, flags & kHostMallocFlags) : hip::kSuccess;
}

// Signal memory is host memory that is freed like device memory.
hip::Error release(void* p) {
  if (!p) return hip::kSuccess;
  unsigned type = cuda::kMemoryUnknown;
  if (call().cuPointerGetAttribute(&type, cuda::kPointerMemoryType, p) != hip::kSuccess)
    return hip::kErrorInvalidValue;
  unsigned managed = 0;
  if (type == cuda::kMemoryHost) call().cuPointerGetAttribute(&managed, cuda::kPointerIsManaged, p);
  return type == cuda::kMemoryHost && !managed ? call().cuMemFreeHost(p) : call().cuMemFree(p);
}

}  // namespace

HIP_EXPORT hip::Error hipMalloc(void** out, size_t size) {
  HIP_ENTER();
  HIP_RETURN(allocate(out, size));
}
/// Signal memory is pinned host memory, which is what CUDA's streams can wait on and the CPU can write.
HIP_EXPORT hip::Error hipExtMallocWithFlags(void** out, size_t size, unsigned flags) {
  HIP_ENTER();
  if (flags != hip::kMallocSignalMemory) HIP_RETURN(allocate(out, size));
  if (size != 8) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(allocate_host(out, size, hip::kHostMallocPortable));
}
HIP_EXPORT hip::Error hipMallocManaged(void** out, size_t size, unsigned flags) {
  HIP_ENTER();
  if (!out) HIP_RETURN(hip::kErrorInvalidValue);
  constexpr unsigned kAttachGlobal = 1;
  HIP_RETURN(call().cuMemAllocManaged(out, size, flags ? flags : kAttachGlobal));
}
HIP_EXPORT hip::Error hipFree(void* p) {
  HIP_ENTER();
  HIP_RETURN(release(p));
}
HIP_EXPORT hip::Error hipMallocAsync(void** out, size_t size, hip::Stream stream) {
  HIP_ENTER();
  if (!out) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuMemAllocAsync, out, size, stream));
}
HIP_EXPORT hip::Error hipFreeAsync(void* p, hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(cuda::call_if(call().cuMemFreeAsync, p, stream));
}
HIP_EXPORT hip::Error hipHostMalloc(void** out, size_t size, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(out, size, flags));
}
HIP_EXPORT hip::Error hipHostAlloc(void** out, size_t size, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(out, size, flags));
}
HIP_EXPORT hip::Error hipHostFree(void* p) {
  HIP_ENTER();
  HIP_RETURN(p ? call().cuMemFreeHost(p) : hip::kSuccess);
}
HIP_EXPORT hip::Error hipHostRegister(void* p, size_t size, unsigned flags) {
  HIP_ENTER();
  if (!p || size == 0 || flags & ~kHostRegisterFlags) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(call().cuMemHostRegister(p, size, flags));
}
HIP_EXPORT hip::Error hipHostUnregister(void* p) {
  HIP_ENTER();
  HIP_RETURN(call().cuMemHostUnregister(p));
}
HIP_EXPORT hip::Error hipHostGetDevicePointer(void** out, void* p, unsigned flags) {
  HIP_ENTER();
  if (!out || flags) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(call().cuMemHostGetDevicePointer(out, p, 0));
}
HIP_EXPORT hip::Error hipHostGetFlags(unsigned* out, void* p) {
  HIP_ENTER();
  if (!out) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(call().cuMemHostGetFlags(out, p));
}
HIP_EXPORT hip::Error hipMemGetInfo(size_t* free_bytes, size_t* total) {
  HIP_ENTER();
  if (!free_bytes || !total) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(call().cuMemGetInfo(free_bytes, total));
}

HIP_EXPORT hip::Error hipMemcpy(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  HIP_ENTER();
  HIP_RETURN(copy(dst, src, bytes, kind));
}
HIP_EXPORT hip::Error hipMemcpyAsync(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                                     hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(copy_async(dst, src, bytes, kind, stream));
}
HIP_EXPORT hip::Error hipMemcpyWithStream(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                                          hip::Stream stream) {
  HIP_ENTER();
  hip::Error error = copy_async(dst, src, bytes, kind, stream);
  HIP_RETURN(error == hip::kSuccess ? call().cuStreamSynchronize(stream) : error);
}
HIP_EXPORT hip::Error hipMemcpyHtoD(void* dst, void* src, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyHostToDevice));
}
HIP_EXPORT hip::Error hipMemcpyDtoH(void* dst, void* src, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyDeviceToHost));
}
HIP_EXPORT hip::Error hipMemcpyDtoD(void* dst, void* src, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyDeviceToDevice));
}
HIP_EXPORT hip::Error hipMemcpyHtoDAsync(void* dst, void* src, size_t bytes, hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(copy_async(dst, src, bytes, hip::kMemcpyHostToDevice, stream));
}
HIP_EXPORT hip::Error hipMemcpyDtoHAsync(void* dst, void* src, size_t bytes, hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(copy_async(dst, src, bytes, hip::kMemcpyDeviceToHost, stream));
}
HIP_EXPORT hip::Error hipMemcpyPeer(void* dst, int to, const void* src, int from, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy_peer(dst, to, src, from, bytes, nullptr, false));
}
HIP_EXPORT hip::Error hipMemcpyPeerAsync(void* dst, int to, const void* src, int from, size_t bytes,
                                         hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(copy_peer(dst, to, src, from, bytes, stream, true));
}
HIP_EXPORT hip::Error hipMemset(void* dst, int value, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(fill(dst, value, bytes));
}
HIP_EXPORT hip::Error hipMemsetD8(void* dst, unsigned char value, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(fill(dst, value, bytes));
}
HIP_EXPORT hip::Error hipMemsetAsync(void* dst, int value, size_t bytes, hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(bytes ? call().cuMemsetD8Async(dst, static_cast<unsigned char>(value), bytes, stream)
                   : hip::kSuccess);
}
