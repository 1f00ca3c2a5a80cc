// What the kernels are tried with, on the host and on GPUs alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/copy.h"

namespace kernel_cases {

/// CRC32C by the byte, from its definition.
inline uint32_t crc32c(std::span<const unsigned char> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; i++) {
      t[i] = i;
      for (int bit = 0; bit < 8; bit++) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82F63B78 : 0);
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes) crc = crc >> 8 ^ table[(crc ^ byte) & 255];
  return ~crc;
}

inline void fill_random(std::span<unsigned char> bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t v = random();
    memcpy(&bytes[i], &v, std::min<size_t>(8, bytes.size() - i));
  }
}

/// Pieces from one region to another, each a place in both.
struct Piece {
  uint64_t from, to, length;
};

/// `count` pieces of random lengths up to `longest`, one after the other in both regions with random gaps, so that
/// any alignment of one end meets any of the other; every third has both ends alike modulo 16.
inline std::vector<Piece> random_pieces(uint32_t count, uint64_t longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Piece> pieces;
  uint64_t from = 0, to = 0;
  for (uint32_t i = 0; i < count; i++) {
    from += random() % 40;
    to += random() % 40;
    if (i % 3 == 0) to += (from - to) % 16;
    const uint64_t length = i % 5 == 0 ? random() % 48 : random() % (longest + 1);
    pieces.push_back({from, to, length});
    from += length;
    to += length;
  }
  return pieces;
}

/// Bytes of a region that holds one end of `pieces`, in whole granules.
inline uint64_t region(const std::vector<Piece>& pieces) {
  uint64_t end = 0;
  for (const Piece& p : pieces) end = std::max({end, p.from + p.length, p.to + p.length});
  return end / 16 * 16 + 64;
}

inline std::vector<kernels::Segment> segments(const std::vector<Piece>& pieces, const unsigned char* source,
                                              unsigned char* destination) {
  std::vector<kernels::Segment> list;
  for (const Piece& p : pieces) list.push_back({source + p.from, destination + p.to, p.length});
  return list;
}

/// What `destination` holds afterwards.
inline std::vector<unsigned char> copied(const std::vector<Piece>& pieces,
                                         std::span<const unsigned char> source,
                                         std::span<const unsigned char> destination) {
  std::vector<unsigned char> bytes(destination.begin(), destination.end());
  for (const Piece& p : pieces)
    if (p.length) memcpy(&bytes[p.to], &source[p.from], p.length);
  return bytes;
}

}  // namespace kernel_cases
