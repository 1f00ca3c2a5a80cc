// Events.
#include "driver.h"

using namespace fake_cuda;

CUDA_EXPORT Error cuEventCreate(hip::Event* out, unsigned flags) {
  ENTER();
  record("cuEventCreate", "%u", flags);
  return flags & ~7u ? hip::kErrorInvalidValue : forward("hipEventCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuEventDestroy_v2(hip::Event event) {
  ENTER();
  return forward("hipEventDestroy", event);
}
CUDA_EXPORT Error cuEventRecord(hip::Event event, hip::Stream stream) {
  ENTER();
  return forward("hipEventRecord", event, stream);
}
CUDA_EXPORT Error cuEventQuery(hip::Event event) {
  ENTER();
  return forward("hipEventQuery", event);
}
CUDA_EXPORT Error cuEventSynchronize(hip::Event event) {
  ENTER();
  return forward("hipEventSynchronize", event);
}
CUDA_EXPORT Error cuEventElapsedTime(float* milliseconds, hip::Event start, hip::Event stop) {
  ENTER();
  return forward("hipEventElapsedTime", milliseconds, start, stop);
}
