// Polynomials over GF(2) modulo that of CRC32C (Castagnoli, 0x1EDC6F41), which is what a CRC is the remainder by. As in
// every reflected CRC the highest bit is the coefficient of x^0.
#pragma once

#include "kernels/target.h"

namespace kernels::gf2 {

inline constexpr uint32 kPolynomial = 0x82F63B78;
inline constexpr uint32 kOne = 0x80000000;
/// x^kOrder = 1: the polynomial is x + 1 times a primitive one of degree 31.
inline constexpr uint64 kOrder = 0x7FFFFFFF;

KERNELS_ANYWHERE constexpr uint32 times_x(uint32 a) { return a >> 1 ^ (a & 1 ? kPolynomial : 0); }

KERNELS_ANYWHERE constexpr uint32 multiply(uint32 a, uint32 b) {
  uint32 product = 0;
  for (int bit = 31; bit >= 0; bit--) {
    product ^= a >> bit & 1 ? b : 0;
    b = times_x(b);
  }
  return product;
}

/// x^exponent.
constexpr uint32 power(uint64 exponent) {
  uint32 result = kOne;
  uint32 square = kOne >> 1;
  for (exponent %= kOrder; exponent; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

/// Multiplies by one factor, four bits at a time.
struct NibbleTable {
  uint32 product[8 * 16];  ///< [16 * i + v]: v at the bits 4i to 4i + 3, times the factor

  constexpr explicit NibbleTable(uint32 factor) : product{} {
    for (uint32 i = 0; i < 8; i++)
      for (uint32 v = 0; v < 16; v++) product[16 * i + v] = multiply(factor, v << 4 * i);
  }
  constexpr uint32 times(uint32 a) const {
    uint32 result = 0;
    for (uint32 i = 0; i < 8; i++) result ^= product[16 * i + (a >> 4 * i & 15)];
    return result;
  }
};

}  // namespace kernels::gf2
