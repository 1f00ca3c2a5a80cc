// What every exported function of the CUDA stand-in does first and last.
#pragma once

#include "common/export.h"
#include "context.h"
#include "driver.h"

#ifndef HIP_CUDA_MAJOR
#define HIP_CUDA_MAJOR 6
#endif

/// Opens a function that needs the driver but no context.
#define HIP_ENTER_DRIVER() \
  if (hip::Error hip_enter = cuda::enter(); hip_enter != hip::kSuccess) return cuda::leave(hip_enter)
/// Opens a function that works on the thread's current device.
#define HIP_ENTER() \
  if (hip::Error hip_enter = cuda::enter_device(); hip_enter != hip::kSuccess) return cuda::leave(hip_enter)
#define HIP_RETURN(expression) return cuda::leave(expression)

namespace cuda {

inline constexpr int kMajor = HIP_CUDA_MAJOR;
/// Of the HIP interface, not of CUDA: 5.2 or 6.4.
inline constexpr int kVersion = kMajor == 5 ? 50221153 : 60443484;

inline const DriverTable& call() { return driver().call; }

/// kErrorNoDevice where there is no driver or device, kErrorNotInitialized in a child of fork.
hip::Error enter();
hip::Error enter_device();
/// Remembers the error for hipGetLastError and returns it.
hip::Error leave(hip::Error error);
hip::Error take_last_error(bool clear);

/// Calls an entry point that old drivers lack.
template <typename F, typename... A>
hip::Error call_if(F function, A... arguments) {
  return function ? function(arguments...) : hip::kErrorNotSupported;
}

}  // namespace cuda
