// repack: weights from the blocks of their file to the planes of packed.h
//
// Once, at load. Rows of several matrices of one format and width may lie behind each other in one target: together
// they are one matrix.
#include "forge/packed.h"

namespace {
using namespace forge;

// A thread a block of 32 elements. Grid: ceil(out * in / 32 / BLOCK).
template <class F>
DEVICE void repack(int block, const uint8_t* __restrict source, uint8_t* __restrict target, int out, int file_blocks) {
  using Source = typename F::Source;
  constexpr int PARTS = Source::ELEMENTS / Q8_BLOCK;
  const int blocks = file_blocks * PARTS;
  const int64_t at = static_cast<int64_t>(block) * BLOCK + thread_id();
  if (at >= static_cast<int64_t>(out) * blocks) return;
  const int b = static_cast<int>(at % blocks), first = b % PARTS * Q8_BLOCK;
  const uint8_t* from = source + at / PARTS * Source::BYTES;
  uint8_t* row = target + at / blocks * packed_row_bytes<F>(blocks);
  uint8_t quants[Q8_BLOCK];
  for (int i = 0; i < Q8_BLOCK; i++) {
    quants[i] = static_cast<uint8_t>(Source::stored4(from, first + (i & ~3)) >> (8 * (i & 3)));
  }
  F::Quants::store(row, b, blocks, quants);
  F::Scales::store(row + F::Quants::bytes(blocks), b, blocks, from);
}
}  // namespace

#define REPACK(name, Format)                                                      \
  KERNEL(name, const uint8_t* __restrict source, /* [out, blocks], of the file */ \
         uint8_t* __restrict target,             /* [out, packed_row_bytes] */    \
         int out, int blocks) {                                                   \
    repack<forge::Format>(BLOCK_INDEX.x, source, target, out, blocks);            \
  }
#define REPACK_FORMAT(type, Name) REPACK(repack_##type, Packed##Name)

FORGE_PACKED_FORMATS(REPACK_FORMAT)
