#include "context.h"

#include <atomic>
#include <mutex>

namespace cuda {
namespace {

std::mutex retain_mutex;
std::array<std::atomic<Context>, kMostDevices> primaries;

thread_local int device_of_thread = 0;  // what counts while the thread has no context

// A context of the program's own that set_current_device() took off this thread.
struct Displaced {
  Context context = nullptr;
  int device = -1;
};
thread_local Displaced displaced;

std::atomic<Context>& slot(int device) { return primaries[static_cast<size_t>(device)]; }

int ordinal_of(int cu_device) {
  const Driver& d = driver();
  for (int i = 0; i < d.count; i++)
    if (d.devices[static_cast<size_t>(i)] == cu_device) return i;
  return 0;
}

Context current_context() {
  Context context = nullptr;
  driver().call.cuCtxGetCurrent(&context);
  return context;
}

// The device of the context that is current.
int device_of_current(Context context) {
  if (slot(device_of_thread).load(std::memory_order_acquire) == context) return device_of_thread;
  int device = 0;
  driver().call.cuCtxGetDevice(&device);
  return ordinal_of(device);
}

hip::Error make_current(int device) {
  Context primary = nullptr;
  if (hip::Error error = primary_context(device, primary); error != hip::kSuccess) return error;
  hip::Error error = driver().call.cuCtxSetCurrent(primary);
  if (error == hip::kSuccess) device_of_thread = device;
  return error;
}

}  // namespace

hip::Error primary_context(int device, Context& out) {
  if ((out = slot(device).load(std::memory_order_acquire))) return hip::kSuccess;
  std::lock_guard lock(retain_mutex);
  if ((out = slot(device).load(std::memory_order_acquire))) return hip::kSuccess;
  const Driver& d = driver();
  hip::Error error = d.call.cuDevicePrimaryCtxRetain(&out, d.devices[static_cast<size_t>(device)]);
  if (error == hip::kSuccess) slot(device).store(out, std::memory_order_release);
  return error;
}

hip::Error ensure_context() { return current_context() ? hip::kSuccess : make_current(device_of_thread); }

int current_device() {
  Context context = current_context();
  return context ? device_of_current(context) : device_of_thread;
}

hip::Error set_current_device(int device) {
  if (!driver().valid(device)) return hip::kErrorInvalidDevice;
  Context context = current_context();
  if (!context) {
    device_of_thread = device;
    return hip::kSuccess;
  }
  const int former = device_of_current(context);
  if (former == device) {
    device_of_thread = device;
    return hip::kSuccess;
  }
  Context primary = nullptr;
  if (primary_context(former, primary) == hip::kSuccess && primary != context) displaced = {context, former};
  if (displaced.context && displaced.device == device) {
    Context own = displaced.context;
    displaced = {};
    if (driver().call.cuCtxSetCurrent(own) == hip::kSuccess) {  // it may be gone by now
      device_of_thread = device;
      return hip::kSuccess;
    }
  }
  return make_current(device);
}

hip::Error device_of(Context context, int& out) {
  const Driver& d = driver();
  for (int i = 0; i < d.count; i++)
    if (slot(i).load(std::memory_order_acquire) == context) {
      out = i;
      return hip::kSuccess;
    }
  if (hip::Error error = d.call.cuCtxPushCurrent(context); error != hip::kSuccess) return error;
  int device = 0;
  hip::Error error = d.call.cuCtxGetDevice(&device);
  d.call.cuCtxPopCurrent(&context);
  out = ordinal_of(device);
  return error;
}

hip::Error reset_device() {
  const Driver& d = driver();
  const int device = current_device();
  hip::Error error = d.call.cuCtxSynchronize();
  std::lock_guard lock(retain_mutex);
  const int cu_device = d.devices[static_cast<size_t>(device)];
  if (slot(device).exchange(nullptr)) d.call.cuDevicePrimaryCtxRelease(cu_device);
  hip::Error reset = d.call.cuDevicePrimaryCtxReset(cu_device);
  d.call.cuCtxSetCurrent(nullptr);
  device_of_thread = device;
  return error != hip::kSuccess ? error : reset;
}

}  // namespace cuda
