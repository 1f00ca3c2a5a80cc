// Streams and events. Handles are the driver's own, so those of NVIDIA's runtime are as good.
#include "runtime.h"

using cuda::call;

namespace {

// The null stream, hipStreamLegacy and hipStreamPerThread are numbers that belong to the current device.
bool is_special(hip::Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

hip::Error device_of_stream(hip::Stream stream, hip::Device* device) {
  if (!device) return hip::kErrorInvalidValue;
  if (is_special(stream)) {
    *device = cuda::current_device();
    return hip::kSuccess;
  }
  cuda::Context context = nullptr;
  hip::Error error = call().cuStreamGetCtx(stream, &context);
  return error == hip::kSuccess ? cuda::device_of(context, *device) : error;
}

constexpr unsigned kEventFlags = 7;  // blocking, without timing, interprocess; the rest is AMD's

}  // namespace

HIP_EXPORT hip::Error hipStreamCreate(hip::Stream* out) {
  HIP_ENTER();
  HIP_RETURN(out ? call().cuStreamCreate(out, 0) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipStreamCreateWithFlags(hip::Stream* out, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(out ? call().cuStreamCreate(out, flags) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipStreamCreateWithPriority(hip::Stream* out, unsigned flags, int priority) {
  HIP_ENTER();
  HIP_RETURN(out ? call().cuStreamCreateWithPriority(out, flags, priority) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  HIP_ENTER();
  HIP_RETURN(call().cuCtxGetStreamPriorityRange(least, greatest));
}
HIP_EXPORT hip::Error hipStreamDestroy(hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(is_special(stream) ? hip::kErrorInvalidHandle : call().cuStreamDestroy(stream));
}
HIP_EXPORT hip::Error hipStreamSynchronize(hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(call().cuStreamSynchronize(stream));
}
HIP_EXPORT hip::Error hipStreamQuery(hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(call().cuStreamQuery(stream));
}
HIP_EXPORT hip::Error hipStreamWaitEvent(hip::Stream stream, hip::Event event, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(event ? call().cuStreamWaitEvent(stream, event, flags) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipStreamGetFlags(hip::Stream stream, unsigned* flags) {
  HIP_ENTER();
  HIP_RETURN(flags ? call().cuStreamGetFlags(stream, flags) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipStreamGetPriority(hip::Stream stream, int* priority) {
  HIP_ENTER();
  HIP_RETURN(priority ? call().cuStreamGetPriority(stream, priority) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipStreamGetDevice(hip::Stream stream, hip::Device* device) {
  HIP_ENTER();
  HIP_RETURN(device_of_stream(stream, device));
}
HIP_EXPORT hip::Error hipStreamIsCapturing(hip::Stream stream, int* status) {
  HIP_ENTER();
  HIP_RETURN(status ? call().cuStreamIsCapturing(stream, status) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipThreadExchangeStreamCaptureMode(int* mode) {
  HIP_ENTER();
  HIP_RETURN(mode ? call().cuThreadExchangeStreamCaptureMode(mode) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipLaunchHostFunc(hip::Stream stream, hip::HostFunction function, void* data) {
  HIP_ENTER();
  HIP_RETURN(function ? call().cuLaunchHostFunc(stream, function, data) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipStreamAddCallback(hip::Stream stream, hip::StreamCallback callback, void* data,
                                           unsigned flags) {
  HIP_ENTER();
  if (!callback || flags) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(call().cuStreamAddCallback(stream, callback, data, 0));
}
/// CUDA compares whole words: any other mask is hipErrorNotSupported.
HIP_EXPORT hip::Error hipStreamWaitValue64(hip::Stream stream, void* p, uint64_t value, unsigned how,
                                           uint64_t mask) {
  HIP_ENTER();
  if (how > hip::kWaitNor) HIP_RETURN(hip::kErrorInvalidValue);
  if (mask != ~uint64_t{0}) HIP_RETURN(hip::kErrorNotSupported);
  HIP_RETURN(cuda::call_if(call().cuStreamWaitValue64, stream, p, value, how));
}
HIP_EXPORT hip::Error hipStreamWaitValue32(hip::Stream stream, void* p, uint32_t value, unsigned how,
                                           uint32_t mask) {
  HIP_ENTER();
  if (how > hip::kWaitNor) HIP_RETURN(hip::kErrorInvalidValue);
  if (mask != ~uint32_t{0}) HIP_RETURN(hip::kErrorNotSupported);
  HIP_RETURN(cuda::call_if(call().cuStreamWaitValue32, stream, p, value, how));
}
HIP_EXPORT hip::Error hipStreamWriteValue64(hip::Stream stream, void* p, uint64_t value, unsigned) {
  HIP_ENTER();
  HIP_RETURN(cuda::call_if(call().cuStreamWriteValue64, stream, p, value, 0u));
}
HIP_EXPORT hip::Error hipStreamWriteValue32(hip::Stream stream, void* p, uint32_t value, unsigned) {
  HIP_ENTER();
  HIP_RETURN(cuda::call_if(call().cuStreamWriteValue32, stream, p, value, 0u));
}

HIP_EXPORT hip::Error hipEventCreate(hip::Event* out) {
  HIP_ENTER();
  HIP_RETURN(out ? call().cuEventCreate(out, 0) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipEventCreateWithFlags(hip::Event* out, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(out ? call().cuEventCreate(out, flags & kEventFlags) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipEventDestroy(hip::Event event) {
  HIP_ENTER();
  HIP_RETURN(event ? call().cuEventDestroy(event) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipEventRecord(hip::Event event, hip::Stream stream) {
  HIP_ENTER();
  HIP_RETURN(event ? call().cuEventRecord(event, stream) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipEventQuery(hip::Event event) {
  HIP_ENTER();
  HIP_RETURN(event ? call().cuEventQuery(event) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipEventSynchronize(hip::Event event) {
  HIP_ENTER();
  HIP_RETURN(event ? call().cuEventSynchronize(event) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipEventElapsedTime(float* milliseconds, hip::Event start, hip::Event stop) {
  HIP_ENTER();
  if (!milliseconds) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(start && stop ? call().cuEventElapsedTime(milliseconds, start, stop) : hip::kErrorInvalidHandle);
}
