#include "runtime.h"

#include <pthread.h>

#include <atomic>

namespace cuda {
namespace {

thread_local hip::Error last_error = hip::kSuccess;
std::atomic<bool> forked{false};

// A child of fork cannot use what its parent initialised.
bool watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  return true;
}

}  // namespace

hip::Error enter() {
  if (forked.load(std::memory_order_relaxed)) return hip::kErrorNotInitialized;
  const Driver& d = driver();
  if (d.status != hip::kSuccess) return d.status;
  static const bool watched = watch_forks();
  return watched ? hip::kSuccess : hip::kErrorNotInitialized;
}

hip::Error enter_device() {
  hip::Error error = enter();
  return error == hip::kSuccess ? ensure_context() : error;
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

}  // namespace cuda
