// What the parts of the fake libcuda.so.1 share. Contexts, handles and recorded calls are its own, the rest it hands to
// the software HIP runtime, whose HIP_SOFTWARE_* variables therefore count here, too.
//
// It is strict where the driver is: what needs a context fails without one.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <optional>

#include "hip_abi/hip_abi.h"

#define CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace fake_cuda {

using hip::Error;

/// The software runtime, as dlopen() gives it.
void* software();

template <typename... A>
Error forward(const char* name, A... arguments) {
  auto function = reinterpret_cast<Error (*)(A...)>(dlsym(software(), name));
  return function ? function(arguments...) : hip::kErrorUnknown;
}

/// For fakeCudaCalls() and fakeCudaLast().
void record_text(const char* name, const char* arguments);

template <typename... A>
void record(const char* name, const char* format, A... arguments) {
  char text[256];
  snprintf(text, sizeof text, format, arguments...);
  record_text(name, text);
}
inline void record(const char* name) { record_text(name, ""); }

/// After a cuInit() that was not told to fail.
extern bool initialised;
int device_count();

struct Context {
  int device = 0;
  bool primary = false;
  int retained = 0;
  bool alive = true;
};
Context* primary_context(int device);
/// Of the calling thread's context, which there is behind ENTER().
int current_device();

/// Software's current device follows the context.
Error enter();
#define ENTER() \
  if (Error entered = enter(); entered != hip::kSuccess) return entered

/// What cuMemMap() put at the address, if it did.
struct MappedRange {
  char* base = nullptr;
  size_t size = 0;
};
std::optional<MappedRange> mapped_range(void* p);

}  // namespace fake_cuda

CUDA_EXPORT hip::Error cuMemGetAddressRange_v2(void** base, size_t* size, void* p);
