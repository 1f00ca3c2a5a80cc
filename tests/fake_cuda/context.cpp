// Contexts: those of the devices, and those that programs make.
#include <array>
#include <mutex>
#include <vector>

#include "driver.h"

using namespace fake_cuda;

namespace {

std::array<Context, 16> primaries;
std::mutex context_mutex;
thread_local Context* current = nullptr;
thread_local std::vector<Context*> pushed;

}  // namespace

Context* fake_cuda::primary_context(int device) { return &primaries.at(static_cast<size_t>(device)); }

int fake_cuda::current_device() { return current->device; }

Error fake_cuda::enter() {
  if (!initialised) return hip::kErrorNotInitialized;
  if (!current) return hip::kErrorInvalidContext;
  if (!current->alive) return static_cast<Error>(709);  // CUDA_ERROR_CONTEXT_IS_DESTROYED
  return forward("hipSetDevice", current->device);
}

CUDA_EXPORT Error cuDevicePrimaryCtxRetain(Context** context, int device) {
  record("cuDevicePrimaryCtxRetain", "%d", device);
  if (!initialised) return hip::kErrorNotInitialized;
  std::lock_guard lock(context_mutex);
  Context& primary = primaries.at(static_cast<size_t>(device));
  primary.device = device;
  primary.primary = primary.alive = true;
  primary.retained++;
  *context = &primary;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDevicePrimaryCtxRelease_v2(int device) {
  record("cuDevicePrimaryCtxRelease", "%d", device);
  std::lock_guard lock(context_mutex);
  primaries.at(static_cast<size_t>(device)).retained--;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDevicePrimaryCtxReset_v2(int device) {
  record("cuDevicePrimaryCtxReset", "%d", device);
  std::lock_guard lock(context_mutex);
  primaries.at(static_cast<size_t>(device)).alive = false;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxCreate_v2(Context** out, unsigned, int device) {
  *out = current = new Context{device, false, 0, true};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxDestroy_v2(Context* context) {
  context->alive = false;  // kept: the tests look at what happens to its users
  if (current == context) current = nullptr;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxGetCurrent(Context** out) {
  if (!initialised) return hip::kErrorNotInitialized;
  *out = current;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxSetCurrent(Context* context) {
  record("cuCtxSetCurrent", "%d", context ? context->device : -1);
  if (context && !context->alive) return static_cast<Error>(709);
  current = context;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxPushCurrent_v2(Context* context) {
  pushed.push_back(current);
  current = context;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxPopCurrent_v2(Context** context) {
  if (pushed.empty()) return hip::kErrorInvalidContext;
  *context = current;
  current = pushed.back();
  pushed.pop_back();
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxGetDevice(int* device) {
  if (!current) return hip::kErrorInvalidContext;
  *device = current->device;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxSynchronize() {
  ENTER();
  return forward("hipDeviceSynchronize");
}
CUDA_EXPORT Error cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxEnablePeerAccess(Context* peer, unsigned) {
  ENTER();
  record("cuCtxEnablePeerAccess", "%d", peer->device);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxDisablePeerAccess(Context* peer) {
  ENTER();
  record("cuCtxDisablePeerAccess", "%d", peer->device);
  return hip::kSuccess;
}
