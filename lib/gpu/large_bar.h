// VRAM that the CPU can store to, because the device's BAR shows all of it.
#pragma once

#include <optional>

#include "gpu/hip.h"

namespace gpu {

/// Immutable, usable from any thread.
class LargeBar {
 public:
  /// Nothing where the runtime is not AMD's or the BAR does not show all of the VRAM.
  static std::optional<LargeBar> of(const Runtime& runtime, int device);

  /// After the CPU has stored up to and including `last`: returns when the device will see it. Kernels launched from
  /// then on do; one that is running already may not.
  void flush(const char* last) const;

 private:
  explicit LargeBar(volatile unsigned* host_data_path) : host_data_path_(host_data_path) {}
  volatile unsigned* host_data_path_;  // register that empties the host data path's cache; may be null
};

}  // namespace gpu
