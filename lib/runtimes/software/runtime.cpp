#include "runtime.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace software {
namespace {

thread_local hip::Error last_error = hip::kSuccess;
thread_local int device_of_thread = 0;

}  // namespace

std::atomic<bool> forked{false};

Runtime::Runtime()
    : knobs(Knobs::from_environment()),
      memory(knobs.strict, knobs.memory_bytes, knobs.devices),
      streams(knobs.devices) {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (const char* spec = std::getenv("HIP_SOFTWARE_FAIL")) faults.plan(spec);
}

Runtime& runtime() {
  static auto* instance = new Runtime;
  return *instance;
}

hip::Error enter(const char* name) {
  if (forked) return hip::kErrorNotInitialized;  // a child of fork has none of the threads
  Runtime& r = runtime();
  if (auto error = r.faults.next(name)) return *error;
  return r.knobs.devices == 0 ? hip::kErrorNoDevice : hip::kSuccess;
}

hip::Error leave(hip::Error error) {
  if (error != hip::kSuccess && error != hip::kErrorNotReady) last_error = error;
  return error;
}

hip::Error take_last_error(bool clear) {
  hip::Error error = last_error;
  if (clear) last_error = hip::kSuccess;
  return error;
}

int current_device() { return device_of_thread; }

hip::Error set_current_device(int device) {
  if (!valid_device(device)) return hip::kErrorInvalidDevice;
  device_of_thread = device;
  return hip::kSuccess;
}

}  // namespace software
