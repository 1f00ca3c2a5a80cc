// What one thread loads or stores at once: 16 aligned bytes, the widest that GPUs have. A granule never crosses a page,
// so one that holds a byte that may be read can be read whole.
#pragma once

#include "kernels/target.h"

namespace kernels {

struct [[gnu::may_alias]] alignas(16) Granule {
  uint64 low, high;  ///< little-endian: the first byte is the lowest of `low`
};
inline constexpr uint32 kGranule = sizeof(Granule);

/// Device memory, or host memory that the device sees; never a block's own shared memory.
using GranuleIn = const KERNELS_GLOBAL Granule*;
using GranuleOut = KERNELS_GLOBAL Granule*;
using ByteIn = const KERNELS_GLOBAL unsigned char*;
using ByteOut = KERNELS_GLOBAL unsigned char*;

KERNELS_ANYWHERE constexpr uint64 granule_down(uint64 address) { return address & ~uint64{kGranule - 1}; }
KERNELS_ANYWHERE constexpr uint64 granule_up(uint64 address) { return granule_down(address + kGranule - 1); }

/// The 8 bytes that begin `bits` into `first`, which `second` follows. `bits`: 0 to 63.
KERNELS_ANYWHERE constexpr uint64 funnel(uint64 first, uint64 second, uint32 bits) {
  return first >> bits | second << 1 << (63 - bits);
}

/// The 16 bytes that begin `offset` into `first`, which `second` follows. `offset`: 0 to 15. Without branches, so
/// that both are loaded whole.
KERNELS_ANYWHERE constexpr Granule joined(const Granule& first, const Granule& second, uint32 offset) {
  const bool near = offset < 8;
  const uint64 a = near ? first.low : first.high;
  const uint64 b = near ? first.high : second.low;
  const uint64 c = near ? second.low : second.high;
  const uint32 bits = offset % 8 * 8;
  return {funnel(a, b, bits), funnel(b, c, bits)};
}

/// `granule` with its first `bytes` bytes zero. `bytes`: 0 to 15.
KERNELS_ANYWHERE constexpr Granule without_first(Granule granule, uint32 bytes) {
  if (bytes < 8) return {granule.low & ~uint64{0} << bytes * 8, granule.high};
  return {0, granule.high & ~uint64{0} << (bytes - 8) * 8};
}

/// `granule` with its last `bytes` bytes zero. `bytes`: 0 to 15.
KERNELS_ANYWHERE constexpr Granule without_last(Granule granule, uint32 bytes) {
  if (bytes < 8) return {granule.low, granule.high & ~uint64{0} >> bytes * 8};
  return {granule.low & ~uint64{0} >> (bytes - 8) * 8, 0};
}

}  // namespace kernels
