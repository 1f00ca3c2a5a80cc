#include "pattern.h"

#include <cstring>

namespace bench {
namespace {

// The finalizer of SplitMix64.
uint64_t word_at(uint64_t index, uint64_t seed) {
  uint64_t z = (index + seed * 0x2545f4914f6cdd1d + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

void fill_pattern(void* bytes, size_t length, uint64_t offset, uint64_t seed) {
  for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
    const uint64_t word = word_at((offset + at) / sizeof word, seed);
    memcpy(static_cast<char*>(bytes) + at, &word, sizeof word);
  }
}

std::optional<uint64_t> pattern_mismatch(const void* bytes, size_t length, uint64_t offset, uint64_t seed) {
  for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, static_cast<const char*>(bytes) + at, sizeof word);
    if (word != word_at((offset + at) / sizeof word, seed)) return offset + at;
  }
  return std::nullopt;
}

}  // namespace bench
