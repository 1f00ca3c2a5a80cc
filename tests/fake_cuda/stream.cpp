// Streams, and what they wait for and write.
#include "driver.h"

using namespace fake_cuda;

CUDA_EXPORT Error cuStreamCreate(hip::Stream* out, unsigned flags) {
  ENTER();
  record("cuStreamCreate", "%u", flags);
  return forward("hipStreamCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuStreamCreateWithPriority(hip::Stream* out, unsigned flags, int priority) {
  ENTER();
  record("cuStreamCreateWithPriority", "%u %d", flags, priority);
  return forward("hipStreamCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuStreamDestroy_v2(hip::Stream stream) {
  ENTER();
  return forward("hipStreamDestroy", stream);
}
CUDA_EXPORT Error cuStreamSynchronize(hip::Stream stream) {
  ENTER();
  record("cuStreamSynchronize", "%p", static_cast<void*>(stream));
  return forward("hipStreamSynchronize", stream);
}
CUDA_EXPORT Error cuStreamQuery(hip::Stream stream) {
  ENTER();
  return forward("hipStreamQuery", stream);
}
CUDA_EXPORT Error cuStreamWaitEvent(hip::Stream stream, hip::Event event, unsigned flags) {
  ENTER();
  return forward("hipStreamWaitEvent", stream, event, flags);
}
CUDA_EXPORT Error cuStreamGetFlags(hip::Stream stream, unsigned* flags) {
  ENTER();
  return forward("hipStreamGetFlags", stream, flags);
}
CUDA_EXPORT Error cuStreamGetPriority(hip::Stream, int* priority) {
  ENTER();
  *priority = -3;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuStreamGetCtx(hip::Stream stream, Context** context) {
  ENTER();
  int device = 0;
  Error error = forward("hipStreamGetDevice", stream, &device);
  *context = primary_context(device);
  return error;
}
CUDA_EXPORT Error cuStreamIsCapturing(hip::Stream stream, int* status) {
  ENTER();
  return forward("hipStreamIsCapturing", stream, status);
}
CUDA_EXPORT Error cuThreadExchangeStreamCaptureMode(int* mode) {
  return forward("hipThreadExchangeStreamCaptureMode", mode);
}
CUDA_EXPORT Error cuStreamAddCallback(hip::Stream stream, hip::StreamCallback callback, void* data,
                                      unsigned flags) {
  ENTER();
  return forward("hipStreamAddCallback", stream, callback, data, flags);
}
CUDA_EXPORT Error cuLaunchHostFunc(hip::Stream stream, hip::HostFunction function, void* data) {
  ENTER();
  return forward("hipLaunchHostFunc", stream, function, data);
}
CUDA_EXPORT Error cuStreamWaitValue32_v2(hip::Stream stream, void* p, uint32_t value, unsigned how) {
  ENTER();
  return forward("hipStreamWaitValue32", stream, p, value, how, ~uint32_t{0});
}
CUDA_EXPORT Error cuStreamWaitValue64_v2(hip::Stream stream, void* p, uint64_t value, unsigned how) {
  ENTER();
  return forward("hipStreamWaitValue64", stream, p, value, how, ~uint64_t{0});
}
CUDA_EXPORT Error cuStreamWriteValue32_v2(hip::Stream stream, void* p, uint32_t value, unsigned flags) {
  ENTER();
  return forward("hipStreamWriteValue32", stream, p, value, flags);
}
CUDA_EXPORT Error cuStreamWriteValue64_v2(hip::Stream stream, void* p, uint64_t value, unsigned flags) {
  ENTER();
  return forward("hipStreamWriteValue64", stream, p, value, flags);
}
