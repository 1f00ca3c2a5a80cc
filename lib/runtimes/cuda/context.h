// The current device of a thread.
//
// It is the device of the thread's current driver context, as in NVIDIA's own runtime, so programs that use both
// (PyTorch) see one current device. Devices are used through their primary contexts, which that runtime shares; a
// thread gets one when it first needs it. A context that the program made itself is left alone while its device
// is current, and made current again when its device is.
#pragma once

#include "driver.h"

namespace cuda {

int current_device();
hip::Error set_current_device(int device);

/// Gives the thread a context if it has none. No lock once the device's primary context exists.
hip::Error ensure_context();

/// The primary context of a device, retained at first use until reset_device().
hip::Error primary_context(int device, Context& out);

/// The device that a context belongs to.
hip::Error device_of(Context context, int& out);

/// Waits for the current device and destroys its primary context, for every user of it in the process.
hip::Error reset_device();

}  // namespace cuda
