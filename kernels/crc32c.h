// CRC32C of a range: how it is divided among threads, what each of them does, and how the parts make the whole.
//
// The range, in granules, is laid out in rows of kThreads granules; a block takes `rows` whole rows, so that its
// threads load 4 KiB side by side. The layout ends at the range's end; what it has in front of the range counts as
// zeros, which change no remainder. A thread keeps one remainder for each of the four words of its column and
// multiplies it by x^(bits of a row) from row to row.
#pragma once

#include "kernels/gf2.h"
#include "kernels/granule.h"

namespace kernels {

/// The most blocks, so the most words of device-visible memory for the remainders.
inline constexpr uint32 kCrc32cMostBlocks = 2048;
/// The least that is worth a block: 64 KiB.
inline constexpr uint64 kCrc32cLeastRows = 16;
inline constexpr uint32 kRowBytes = kThreads * kGranule;
/// Granules that a thread has on their way at once.
inline constexpr uint32 kCrc32cUnroll = 4;

/// A range of memory and its division. Pure; the same on host and device.
struct Crc32cPlan {
  uint64 first;       ///< address of the granule with the first byte
  uint64 granules;    ///< that hold bytes of the range
  uint64 rows;        ///< of each block
  uint64 padding;     ///< granules of the layout in front of the range; less than one block's
  uint64 length;      ///< bytes of the range
  uint32 blocks;      ///< 0 for an empty range
  uint32 skip_front;  ///< bytes of the first granule before the range
  uint32 skip_back;   ///< bytes of the last granule after it

  static constexpr Crc32cPlan of(uint64 address, uint64 length) {
    if (length == 0) return {};
    const uint64 first = granule_down(address), end = granule_up(address + length);
    const uint64 granules = (end - first) / kGranule;
    const uint64 all_rows = (granules + kThreads - 1) / kThreads;
    const uint64 least = (all_rows + kCrc32cMostBlocks - 1) / kCrc32cMostBlocks;
    const uint64 rows = least < kCrc32cLeastRows ? kCrc32cLeastRows : least;
    const uint64 blocks = (all_rows + rows - 1) / rows;
    return {first,
            granules,
            rows,
            blocks * rows * kThreads - granules,
            length,
            static_cast<uint32>(blocks),
            static_cast<uint32>(address - first),
            static_cast<uint32>(end - address - length)};
  }
};

/// The CRC32C from the remainders that the blocks left, one each. As everywhere: initial value and final inversion
/// 0xFFFFFFFF, so "123456789" has 0xE3069283.
constexpr uint32 crc32c_of(const Crc32cPlan& plan, const uint32* remainders) {
  const gf2::NibbleTable next_block(gf2::power(plan.rows * kRowBytes * 8));
  uint32 remainder = 0;
  for (uint32 i = 0; i < plan.blocks; i++) remainder = next_block.times(remainder) ^ remainders[i];
  // The zeros behind the range go by division; the initial ones count as bits before it.
  remainder = gf2::multiply(remainder, gf2::power(gf2::kOrder - plan.skip_back * 8));
  return ~(remainder ^ gf2::multiply(~uint32{0}, gf2::power(plan.length % gf2::kOrder * 8)));
}

/// Factors that bring the remainder of thread i's column to the end of the row.
struct ColumnPowers {
  uint32 of[kThreads];

  constexpr ColumnPowers() : of{} {
    uint32 power = gf2::power(32);
    for (uint32 i = kThreads; i-- > 0; power = gf2::multiply(power, gf2::power(kGranule * 8))) of[i] = power;
  }
};

inline constexpr uint32 kNextWord = gf2::power(32);
KERNELS_CONSTANT ColumnPowers kColumnPowers;
KERNELS_CONSTANT gf2::NibbleTable kNextRow(gf2::power(kRowBytes * 8));

/// What the threads of a block share. The table is there once for each bank, so that no two threads of 32 wait for
/// one another.
struct Crc32cShared {
  static constexpr uint32 kBanks = 32;
  uint32 next_row[8 * 16][kBanks];
  uint32 remainder[kThreads];
};

// Phase 1.
KERNELS_DEVICE inline void crc32c_prepare(Crc32cShared& shared, uint32 thread) {
  for (uint32 i = thread; i < 8 * 16 * Crc32cShared::kBanks; i += kThreads)
    shared.next_row[i / Crc32cShared::kBanks][i % Crc32cShared::kBanks] =
        kNextRow.product[i / Crc32cShared::kBanks];
}

KERNELS_DEVICE inline uint32 next_row(const Crc32cShared& shared, uint32 bank, uint32 remainder) {
  uint32 result = 0;
  KERNELS_UNROLL
  for (uint32 i = 0; i < 8; i++) result ^= shared.next_row[16 * i + (remainder >> 4 * i & 15)][bank];
  return result;
}

// Phase 2, when all have done phase 1.
KERNELS_DEVICE inline void crc32c_accumulate(const Crc32cPlan& plan, Crc32cShared& shared, uint32 block,
                                             uint32 thread) {
  const uint64 place = block * plan.rows * kThreads + thread;  // of the column's first granule in the layout
  const uint64 skipped = place < plan.padding ? (plan.padding - place + kThreads - 1) / kThreads : 0;
  uint64 index = place + skipped * kThreads - plan.padding;  // in the range
  uint64 left = skipped < plan.rows ? plan.rows - skipped : 0;
  const uint32 bank = thread % Crc32cShared::kBanks;
  uint32 words[4] = {};

  const GranuleIn from = (GranuleIn)plan.first;
  auto load = [&](uint64 at) { return Granule{from[at].low, from[at].high}; };
  // Only a column's first and last granules can be the range's.
  auto load_edge = [&](uint64 at) {
    Granule granule = load(at);
    if (at == 0) granule = without_first(granule, plan.skip_front);
    if (at == plan.granules - 1) granule = without_last(granule, plan.skip_back);
    return granule;
  };
  auto add = [&](const Granule& granule) {
    words[0] = next_row(shared, bank, words[0]) ^ static_cast<uint32>(granule.low);
    words[1] = next_row(shared, bank, words[1]) ^ static_cast<uint32>(granule.low >> 32);
    words[2] = next_row(shared, bank, words[2]) ^ static_cast<uint32>(granule.high);
    words[3] = next_row(shared, bank, words[3]) ^ static_cast<uint32>(granule.high >> 32);
  };
  auto next = [&](uint32 granules) {
    index += uint64{granules} * kThreads;
    left -= granules;
  };
  if (left > 0) {
    add(load_edge(index));
    next(1);
  }
  while (left > kCrc32cUnroll) {
    Granule granules[kCrc32cUnroll];
    KERNELS_UNROLL
    for (uint32 j = 0; j < kCrc32cUnroll; j++) granules[j] = load(index + j * kThreads);
    KERNELS_UNROLL
    for (uint32 j = 0; j < kCrc32cUnroll; j++) add(granules[j]);
    next(kCrc32cUnroll);
  }
  while (left > 1) {
    add(load(index));
    next(1);
  }
  if (left > 0) add(load_edge(index));

  uint32 column = words[0];
  for (uint32 i = 1; i < 4; i++) column = gf2::multiply(kNextWord, column) ^ words[i];
  shared.remainder[thread] = gf2::multiply(kColumnPowers.of[thread], column);
}

// Phase 3: sixteen sums of sixteen columns.
inline constexpr uint32 kCrc32cSums = 16;
KERNELS_DEVICE inline void crc32c_fold(Crc32cShared& shared, uint32 thread) {
  if (thread >= kCrc32cSums) return;
  for (uint32 i = thread + kCrc32cSums; i < kThreads; i += kCrc32cSums)
    shared.remainder[thread] ^= shared.remainder[i];
}

// Phase 4.
KERNELS_DEVICE inline void crc32c_store(const Crc32cShared& shared, uint32* remainders, uint32 block,
                                        uint32 thread) {
  if (thread != 0) return;
  uint32 sum = 0;
  for (uint32 i = 0; i < kCrc32cSums; i++) sum ^= shared.remainder[i];
  remainders[block] = sum;
}

}  // namespace kernels
