// Stream and event entry points.
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "runtime.h"

using software::runtime;

namespace {

std::shared_ptr<software::StreamQueue> find(hip::Stream stream) {
  return runtime().streams.find(stream, software::current_device());
}

bool satisfied(unsigned how, uint64_t value, uint64_t wanted, bool wide) {
  switch (how) {
    case hip::kWaitGte:
      return wide ? static_cast<int64_t>(value - wanted) >= 0
                  : static_cast<int32_t>(static_cast<uint32_t>(value) - static_cast<uint32_t>(wanted)) >= 0;
    case hip::kWaitEq:
      return value == wanted;
    case hip::kWaitAnd:
      return (value & wanted) != 0;
    case hip::kWaitNor:
      return (wide ? ~(value | wanted) : ~(value | wanted) & 0xffffffffu) != 0;
    default:
      return true;
  }
}

template <typename T>
hip::Error wait_value(hip::Stream stream, void* p, T wanted, unsigned how, T mask) {
  if (!runtime().knobs.wait_value) return hip::kErrorNotSupported;
  auto queue = find(stream);
  if (!queue) return hip::kErrorInvalidHandle;
  if (how > hip::kWaitNor || !runtime().memory.find(p)) return hip::kErrorInvalidValue;
  runtime().streams.push(queue, [=, closing = queue->closing(), abandon = queue->abandon()] {
    for (unsigned spins = 0;; spins++) {
      void* at = runtime().memory.access(p, sizeof(T));
      if (!at || closing()) return abandon();  // what comes behind must not run without its condition
      T value = std::atomic_ref<T>(*static_cast<T*>(at)).load(std::memory_order_acquire);
      if (satisfied(how, value & mask, wanted, sizeof(T) == 8)) return;
      if (spins > 1000) usleep(50);
    }
  });
  return hip::kSuccess;
}

template <typename T>
hip::Error write_value(hip::Stream stream, void* p, T value) {
  auto queue = find(stream);
  if (!queue) return hip::kErrorInvalidHandle;
  if (!runtime().memory.find(p)) return hip::kErrorInvalidValue;
  runtime().streams.push(queue, [=] {
    if (void* at = runtime().memory.access(p, sizeof(T)))
      std::atomic_ref<T>(*static_cast<T*>(at)).store(value, std::memory_order_release);
  });
  return hip::kSuccess;
}

}  // namespace

HIP_EXPORT hip::Error hipStreamCreate(hip::Stream* out) {
  HIP_ENTER("hipStreamCreate");
  HIP_RETURN(runtime().streams.create(software::current_device(), 0, out));
}
HIP_EXPORT hip::Error hipStreamCreateWithFlags(hip::Stream* out, unsigned flags) {
  HIP_ENTER("hipStreamCreateWithFlags");
  HIP_RETURN(runtime().streams.create(software::current_device(), flags, out));
}
HIP_EXPORT hip::Error hipStreamCreateWithPriority(hip::Stream* out, unsigned flags, int) {
  HIP_ENTER("hipStreamCreateWithPriority");
  HIP_RETURN(runtime().streams.create(software::current_device(), flags, out));
}
HIP_EXPORT hip::Error hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  HIP_ENTER("hipDeviceGetStreamPriorityRange");
  if (least) *least = 0;
  if (greatest) *greatest = 0;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamDestroy(hip::Stream stream) {
  HIP_ENTER("hipStreamDestroy");
  HIP_RETURN(runtime().streams.destroy(stream));
}
HIP_EXPORT hip::Error hipStreamSynchronize(hip::Stream stream) {
  HIP_ENTER("hipStreamSynchronize");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!stream)
    runtime().streams.drain_blocking(queue->device());
  else
    queue->wait(queue->last());
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamQuery(hip::Stream stream) {
  HIP_ENTER("hipStreamQuery");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  HIP_RETURN(queue->idle() ? hip::kSuccess : hip::kErrorNotReady);
}
HIP_EXPORT hip::Error hipStreamWaitEvent(hip::Stream stream, hip::Event event, unsigned flags) {
  HIP_ENTER("hipStreamWaitEvent");
  auto queue = find(stream);
  auto state = runtime().streams.event(event);
  if (!queue || !state) HIP_RETURN(hip::kErrorInvalidHandle);
  if (flags) HIP_RETURN(hip::kErrorInvalidValue);
  if (state->stream && state->stream != queue)
    runtime().streams.push(queue, [state] { state->stream->wait(state->number); });
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamGetFlags(hip::Stream stream, unsigned* flags) {
  HIP_ENTER("hipStreamGetFlags");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!flags) HIP_RETURN(hip::kErrorInvalidValue);
  *flags = queue->flags();
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamGetDevice(hip::Stream stream, hip::Device* device) {
  HIP_ENTER("hipStreamGetDevice");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!device) HIP_RETURN(hip::kErrorInvalidValue);
  *device = queue->device();
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamIsCapturing(hip::Stream stream, int* status) {
  HIP_ENTER("hipStreamIsCapturing");
  if (!find(stream)) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!status) HIP_RETURN(hip::kErrorInvalidValue);
  *status = getenv("HIP_SOFTWARE_CAPTURING") ? 1 : 0;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipThreadExchangeStreamCaptureMode(int* mode) {
  HIP_ENTER("hipThreadExchangeStreamCaptureMode");
  thread_local int current = 0;
  if (!mode || *mode < 0 || *mode > 2) HIP_RETURN(hip::kErrorInvalidValue);
  std::swap(*mode, current);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipLaunchHostFunc(hip::Stream stream, hip::HostFunction function, void* data) {
  HIP_ENTER("hipLaunchHostFunc");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!function) HIP_RETURN(hip::kErrorInvalidValue);
  runtime().streams.push(queue, [=] { function(data); });
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamAddCallback(hip::Stream stream, hip::StreamCallback callback, void* data,
                                           unsigned flags) {
  HIP_ENTER("hipStreamAddCallback");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!callback || flags) HIP_RETURN(hip::kErrorInvalidValue);
  runtime().streams.push(queue, [=] { callback(stream, hip::kSuccess, data); });
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipStreamWaitValue64(hip::Stream stream, void* p, uint64_t value, unsigned how,
                                           uint64_t mask) {
  HIP_ENTER("hipStreamWaitValue64");
  HIP_RETURN(wait_value(stream, p, value, how, mask));
}
HIP_EXPORT hip::Error hipStreamWaitValue32(hip::Stream stream, void* p, uint32_t value, unsigned how,
                                           uint32_t mask) {
  HIP_ENTER("hipStreamWaitValue32");
  HIP_RETURN(wait_value(stream, p, value, how, mask));
}
HIP_EXPORT hip::Error hipStreamWriteValue64(hip::Stream stream, void* p, uint64_t value, unsigned) {
  HIP_ENTER("hipStreamWriteValue64");
  HIP_RETURN(write_value(stream, p, value));
}
HIP_EXPORT hip::Error hipStreamWriteValue32(hip::Stream stream, void* p, uint32_t value, unsigned) {
  HIP_ENTER("hipStreamWriteValue32");
  HIP_RETURN(write_value(stream, p, value));
}

HIP_EXPORT hip::Error hipEventCreate(hip::Event* out) {
  HIP_ENTER("hipEventCreate");
  HIP_RETURN(runtime().streams.create_event(out));
}
HIP_EXPORT hip::Error hipEventCreateWithFlags(hip::Event* out, unsigned) {
  HIP_ENTER("hipEventCreateWithFlags");
  HIP_RETURN(runtime().streams.create_event(out));
}
HIP_EXPORT hip::Error hipEventDestroy(hip::Event event) {
  HIP_ENTER("hipEventDestroy");
  HIP_RETURN(runtime().streams.destroy_event(event));
}
HIP_EXPORT hip::Error hipEventRecord(hip::Event event, hip::Stream stream) {
  HIP_ENTER("hipEventRecord");
  auto queue = find(stream);
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  HIP_RETURN(runtime().streams.record(event, queue));
}
HIP_EXPORT hip::Error hipEventQuery(hip::Event event) {
  HIP_ENTER("hipEventQuery");
  auto state = runtime().streams.event(event);
  if (!state) HIP_RETURN(hip::kErrorInvalidHandle);
  HIP_RETURN(!state->stream || state->stream->done(state->number) ? hip::kSuccess : hip::kErrorNotReady);
}
HIP_EXPORT hip::Error hipEventSynchronize(hip::Event event) {
  HIP_ENTER("hipEventSynchronize");
  auto state = runtime().streams.event(event);
  if (!state) HIP_RETURN(hip::kErrorInvalidHandle);
  if (state->stream) state->stream->wait(state->number);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipEventElapsedTime(float* milliseconds, hip::Event start, hip::Event stop) {
  HIP_ENTER("hipEventElapsedTime");
  auto from = runtime().streams.event(start), to = runtime().streams.event(stop);
  if (!milliseconds || !from || !to || !from->stream || !to->stream) HIP_RETURN(hip::kErrorInvalidHandle);
  if (!from->stream->done(from->number) || !to->stream->done(to->number)) HIP_RETURN(hip::kErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  HIP_RETURN(hip::kSuccess);
}
