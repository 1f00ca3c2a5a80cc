// Bytes that say where they belong: each word of eight is a hash of its offset, so a block at the wrong place
// is noticed, and nothing compresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace bench {

/// Fills `length` bytes (both a multiple of 8) as they are at `offset`. Different seeds, different bytes.
void fill_pattern(void* bytes, size_t length, uint64_t offset, uint64_t seed);

/// Offset of the first word that is not the pattern's.
std::optional<uint64_t> pattern_mismatch(const void* bytes, size_t length, uint64_t offset, uint64_t seed);

}  // namespace bench
