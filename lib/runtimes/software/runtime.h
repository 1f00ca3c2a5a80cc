// The state of the software runtime, and what every exported function does first.
#pragma once

#include "common/export.h"
#include "knobs.h"
#include "memory.h"
#include "stream.h"

#ifndef HIP_SOFTWARE_MAJOR
#define HIP_SOFTWARE_MAJOR 6
#endif

/// Opens an exported function: an injected fault, or no device, ends it here.
#define HIP_ENTER(name)                                                         \
  if (hip::Error hip_enter = software::enter(name); hip_enter != hip::kSuccess) \
  return software::leave(hip_enter)
#define HIP_RETURN(expression) return software::leave(expression)

namespace software {

inline constexpr int kMajor = HIP_SOFTWARE_MAJOR;
inline constexpr int kVersion = kMajor == 5 ? 50221153 : 60443484;

struct Runtime {
  Runtime();
  Knobs knobs;
  Faults faults;
  Memory memory;
  Streams streams;
};

/// Made at first use and never destroyed: streams and client threads may outlive static destructors.
Runtime& runtime();

hip::Error enter(const char* name);
/// Remembers the error for hipGetLastError and returns it.
hip::Error leave(hip::Error error);
hip::Error take_last_error(bool clear);

int current_device();
hip::Error set_current_device(int device);
inline bool valid_device(int device) { return device >= 0 && device < runtime().knobs.devices; }

}  // namespace software
