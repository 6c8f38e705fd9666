// pack_fragments: weights from rows of a file to the fragments of fragments.h
//
// Once, at load. A thread writes what a lane brings to a unit. Rows of several matrices may lie behind each other in
// one target where all but the last are of whole groups.
#include "forge/grid_blocks.h"
#include "forge/hopper/fragments.h"

namespace {
using namespace forge;

// A row group's rows past the end of the matrix, and a row's elements past its own, are zeros.
struct Where {
  int group, chunk, lane, out, in;
  int32_t* overflow;
};
DEVICE int row_of(const Where& at, int a) { return at.group * GROUP_ROWS + part_row(at.lane, a); }
DEVICE int element_of(const Where& at, int step, int a) {
  return at.chunk * CHUNK + step * STEP + part_element(at.lane, a);
}
DEVICE bool has(const Where& at, int row, int k) { return row < at.out && k < at.in; }

template <class T>
DEVICE void pack(const Where& at, const T* __restrict source, uint8_t* unit) {
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    T elements[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
      const int row = row_of(at, i / 2), k = element_of(at, s, i / 2) + i % 2;
      if (has(at, row, k)) {
        elements[i] = source[static_cast<size_t>(row) * at.in + k];
      } else {
        const uint16_t zero = 0;
        __builtin_memcpy(&elements[i], &zero, 2);
      }
    }
    Words4 words;
    __builtin_memcpy(&words, elements, 16);
    store_aligned(unit + s * 512 + at.lane * 16, words);
  }
}

// Source: of blocks.h.
template <class Source>
struct Blocks {
  const uint8_t* source;
  Where at;
};
template <class Source>
DEVICE const uint8_t* block_of(const Blocks<Source>& b, int row, int k) {
  const size_t block = static_cast<size_t>(row) * (b.at.in / Source::ELEMENTS) + k / Source::ELEMENTS;
  return b.source + block * Source::BYTES;
}
// As it is stored: ZERO more than the quant is, or the place of a level.
template <class Source>
DEVICE uint32_t stored_of(const Blocks<Source>& b, int row, int k) {
  if (!has(b.at, row, k)) return 0;
  const int e = k % Source::ELEMENTS;
  return Source::stored4(block_of(b, row, k), e & ~3) >> (8 * (e & 3)) & 255;
}
template <class Source>
DEVICE float scale_of(const Blocks<Source>& b, int row, int k) {
  return has(b.at, row, k) ? Source::scale(block_of(b, row, k), k % Source::ELEMENTS) : 0.0f;
}
template <class Source>
DEVICE float element_at(const Blocks<Source>& b, int row, int k) {
  return has(b.at, row, k) ? dequantize<Source>(block_of(b, row, k), k % Source::ELEMENTS) : 0.0f;
}
// Exponent shift of a row's scale for a format whose quants stand at bit TURN, or APART above: see fragments.h.
template <class F>
DEVICE float carried(int row) {
  return static_cast<float>(1 << (24 - F::TURN - row % 16 / 8 * F::APART)) / F::SCALE;
}
// Offset added to scale * quant.
template <class Source>
DEVICE float offset_of(const Blocks<Source>& b, int row, int k) {
  if (!has(b.at, row, k)) return 0.0f;
  return -Source::minimum(block_of(b, row, k), k % Source::ELEMENTS) - Source::ZERO * scale_of(b, row, k);
}

// Calls body(s, a, e, stored) for what a lane brings to a unit: element e of part a of step s.
template <class B, class Body>
DEVICE void each_stored(const B& blocks, Body body) {
  const Where& at = blocks.at;
  UNROLL
  for (int i = 0; i < STEPS * 8; i++) {
    const int s = i / 8, a = i % 8 / 2, e = i % 2;
    body(s, a, e, stored_of(blocks, row_of(at, a), element_of(at, s, a) + e));
  }
}
template <class F, class B>
DEVICE void pack_nibbles(const B& blocks, uint8_t* unit) {
  Words4 words{{0, 0, 0, 0}};
  each_stored(blocks, [&](int s, int a, int e, uint32_t stored) { words.w[s] |= (stored & 15) << (e * 16 + a * 4); });
  UNROLL
  for (int s = 0; s < STEPS; s++) words.w[s] = words.w[s] << F::TURN | words.w[s] >> (32 - F::TURN);
  store_aligned(unit + blocks.at.lane * 16, words);
}
// Two bits of each quant, or one, from bit `from` on.
template <class B>
DEVICE void pack_pairs(const B& blocks, int from, uint8_t* pairs) {
  Words2 words{{0, 0}};
  each_stored(blocks, [&](int s, int a, int e, uint32_t stored) {
    words.w[s / 2] |= (stored >> from & 3) << (e * 16 + pair_place(s, a));
  });
  store_aligned(pairs + blocks.at.lane * 8, words);
}
template <class B>
DEVICE void pack_bits(const B& blocks, int from, uint8_t* bits) {
  uint32_t word = 0;
  each_stored(blocks, [&](int s, int a, int e, uint32_t stored) {
    word |= (stored >> from & 1) << (e * 16 + bit_place(s, a));
  });
  store_aligned(bits + blocks.at.lane * 4, word);
}
// Raises the flag if a number is beyond f16's range.
DEVICE uint32_t rounded_halves(float low, float high, int32_t* overflow) {
  constexpr float LARGEST = 65504.0f;
  if (!(low <= LARGEST && low >= -LARGEST && high <= LARGEST && high >= -LARGEST)) *overflow = 1;
  const half_t both[2] = {to_half(low), to_half(high)};
  uint32_t word;
  __builtin_memcpy(&word, both, 4);
  return word;
}
DEVICE void store_halves(uint8_t* target, float low, float high, int32_t* overflow) {
  store_aligned(target, rounded_halves(low, high, overflow));
}
// Scale and offset of a row from element k on. What rounding the scale takes from a quant in the middle of all, the
// offset gives back: quants are half as far from there as from 0.
template <class F, class B>
DEVICE void store_scale(uint8_t* target, const B& blocks, int row, int k) {
  const float by = carried<F>(row), scale = scale_of(blocks, row, k) * by;
  const float taken = (scale - to_float(to_half(scale))) / by / F::SCALE;
  store_halves(target, scale, offset_of(blocks, row, k) / F::SCALE + taken * F::MIDDLE, blocks.at.overflow);
}
// A lane with t = 0 writes what is of rows g and g + 8: scale and offset of blocks of 32.
template <class F, class B>
DEVICE void pack_scales(const B& blocks, uint8_t* scales) {
  const Where& at = blocks.at;
  if (at.lane % 4 != 0) return;
  UNROLL
  for (int i = 0; i < 4; i++) {
    const int row = row_of(at, i / 2), k = at.chunk * CHUNK + i % 2 * 32;
    store_scale<F>(scales + at.lane * 4 + i * 4, blocks, row, k);
  }
}

// The scales of each step.
template <class F, class B>
DEVICE void pack_step_scales(const B& blocks, uint8_t* scales) {
  const Where& at = blocks.at;
  if (at.lane % 4 != 0) return;
  UNROLL
  for (int i = 0; i < 4; i++) {
    const int row = row_of(at, i / 2), k = at.chunk * CHUNK + i % 2 * 32;
    const float by = carried<F>(row);
    store_halves(scales + at.lane * 4 + i * 4, scale_of(blocks, row, k) * by, scale_of(blocks, row, k + 16) * by,
                 at.overflow);
  }
}
// The scales of blocks of 32, times `by`.
template <class B>
DEVICE void pack_block_scales(const B& blocks, float by, uint8_t* scales) {
  const Where& at = blocks.at;
  if (at.lane % 4 != 0) return;
  const int k = at.chunk * CHUNK;
  UNROLL
  for (int i = 0; i < 2; i++) {
    const int row = row_of(at, i);
    store_halves(scales + at.lane * 2 + i * 4, scale_of(blocks, row, k) * by, scale_of(blocks, row, k + 32) * by,
                 at.overflow);
  }
}

template <class B>
DEVICE void pack(Quant2, const B& blocks, uint8_t* unit) {
  const Where& at = blocks.at;
  pack_pairs(blocks, 0, unit);
  if (at.lane % 4 != 0) return;
  UNROLL
  for (int i = 0; i < 8; i++) {
    const int row = row_of(at, i / 4), k = at.chunk * CHUNK + i % 4 * STEP;
    store_scale<Quant2>(unit + Quant2::SCALES + at.lane * 8 + i * 4, blocks, row, k);
  }
}
template <class B>
DEVICE void pack(Quant3, const B& blocks, uint8_t* unit) {
  pack_pairs(blocks, 0, unit);
  pack_bits(blocks, 2, unit + 256);
  pack_step_scales<Quant3>(blocks, unit + Quant3::SCALES);
}
template <class B>
DEVICE void pack(Quant4, const B& blocks, uint8_t* unit) {
  pack_nibbles<Quant4>(blocks, unit);
  pack_scales<Quant4>(blocks, unit + Quant4::SCALES);
}
template <class B>
DEVICE void pack(Quant5, const B& blocks, uint8_t* unit) {
  pack_nibbles<Quant5>(blocks, unit);
  pack_bits(blocks, 4, unit + 512);
  pack_scales<Quant5>(blocks, unit + Quant5::SCALES);
}
template <class B>
DEVICE void pack(Quant6, const B& blocks, uint8_t* unit) {
  pack_nibbles<Quant6>(blocks, unit);
  pack_pairs(blocks, 4, unit + 512);
  pack_step_scales<Quant6>(blocks, unit + Quant6::SCALES);
}
template <class B>
DEVICE void pack(Quant8, const B& blocks, uint8_t* unit) {
  Words4 words[2] = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
  each_stored(blocks, [&](int s, int a, int e, uint32_t stored) {
    words[s / 2].w[s % 2 * 2 + a / 2] |= (stored ^ 128) << (a % 2 * 16 + e * 8);
  });
  for (int half = 0; half < 2; half++) store_aligned(unit + half * 512 + blocks.at.lane * 16, words[half]);
  pack_block_scales(blocks, 1.0f, unit + Quant8::SCALES);
}
template <class B>
DEVICE void pack(Levels4, const B& blocks, uint8_t* unit) {
  Words4 words{{0, 0, 0, 0}};
  each_stored(blocks,
              [&](int s, int a, int e, uint32_t stored) { words.w[s] |= stored << (a / 2 * 16 + e * 8 + a % 2 * 4); });
  store_aligned(unit + blocks.at.lane * 16, words);
  pack_block_scales(blocks, carried<Levels4>(0), unit + Levels4::SCALES);
}

// Weights that blocks stand for, rounded to f16 once.
template <class B>
DEVICE void pack(Floats<half_t>, const B& blocks, uint8_t* unit) {
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    Words4 words;
    UNROLL
    for (int a = 0; a < 4; a++) {
      const int row = row_of(blocks.at, a), k = element_of(blocks.at, s, a);
      float both[2];
      for (int e = 0; e < 2; e++) both[e] = element_at(blocks, row, k + e);
      words.w[a] = rounded_halves(both[0], both[1], blocks.at.overflow);
    }
    store_aligned(unit + s * 512 + blocks.at.lane * 16, words);
  }
}

// Grid: ceil(tiles * chunks * TILE_GROUPS * 32 / BLOCK). Calls body(where, unit).
template <class F, class Body>
DEVICE void pack_units(int block, uint8_t* target, int32_t* overflow, int out, int in, Body body) {
  const int tiles = (out + TILE_ROWS - 1) / TILE_ROWS, chunks = (in + CHUNK - 1) / CHUNK;
  const int64_t thread = static_cast<int64_t>(block) * BLOCK + thread_id(), unit = thread / 32;
  if (unit >= static_cast<int64_t>(tiles) * chunks * TILE_GROUPS) return;
  const int tile = static_cast<int>(unit / TILE_GROUPS / chunks), chunk = static_cast<int>(unit / TILE_GROUPS % chunks);
  const int group = tile * TILE_GROUPS + static_cast<int>(unit % TILE_GROUPS);
  body(Where{group, chunk, static_cast<int>(thread % 32), out, in, overflow},
       target + static_cast<size_t>(unit) * F::BYTES);
}
}  // namespace

#define PACK_FLOATS(suffix, type)                                                                     \
  KERNEL(pack_fragments_##suffix, const type* __restrict source, /* [out, in] */                      \
         uint8_t* __restrict target,                             /* [tiles, chunks, 4, unit_bytes] */ \
         int32_t* __restrict overflow,                           /* [1] */                            \
         int out, int in) {                                                                           \
    pack_units<Floats<type>>(BLOCK_INDEX.x, target, overflow, out, in,                                \
                             [&](const Where& at, uint8_t* unit) { pack(at, source, unit); });        \
  }
#define PACK_BLOCKS(suffix, Format, Source)                                                              \
  KERNEL(pack_fragments_##suffix, const uint8_t* __restrict source, /* [out, blocks], of the file */     \
         uint8_t* __restrict target,                                /* [tiles, chunks, 4, unit_bytes] */ \
         int32_t* __restrict overflow,                              /* [1] */                            \
         int out, int in) {                                                                              \
    pack_units<Format>(BLOCK_INDEX.x, target, overflow, out, in, [&](const Where& at, uint8_t* unit) {   \
      pack(Format{}, Blocks<Source>{source, at}, unit);                                                  \
    });                                                                                                  \
  }

PACK_FLOATS(f16, forge::half_t)
PACK_FLOATS(bf16, forge::bfloat_t)
PACK_BLOCKS(q2_k, Quant2, BlockQ2_K)
PACK_BLOCKS(q3_k, Quant3, BlockQ3_K)
PACK_BLOCKS(q4_0, Quant4, BlockQ4_0)
PACK_BLOCKS(q4_1, Quant4, BlockQ4_1)
PACK_BLOCKS(q4_k, Quant4, BlockQ4_K)
PACK_BLOCKS(q5_0, Quant5, BlockQ5_0)
PACK_BLOCKS(q5_1, Quant5, BlockQ5_1)
PACK_BLOCKS(q5_k, Quant5, BlockQ5_K)
PACK_BLOCKS(q6_k, Quant6, BlockQ6_K)
PACK_BLOCKS(q8_0, Quant8, BlockQ8_0)
PACK_BLOCKS(iq4_nl, Levels4, BlockIQ4_NL)
PACK_BLOCKS(iq4_xs, Levels4, BlockIQ4_XS)
PACK_BLOCKS(mxfp4, Floats<forge::half_t>, BlockMXFP4)
PACK_BLOCKS(iq3_s, Floats<forge::half_t>, BlockIQ3_S)
PACK_BLOCKS(iq3_xxs, Floats<forge::half_t>, BlockIQ3_XXS)
PACK_BLOCKS(iq2_s, Floats<forge::half_t>, BlockIQ2_S)
PACK_BLOCKS(iq2_xs, Floats<forge::half_t>, BlockIQ2_XS)
PACK_BLOCKS(iq2_xxs, Floats<forge::half_t>, BlockIQ2_XXS)
PACK_BLOCKS(iq1_s, Floats<forge::half_t>, BlockIQ1_S)
PACK_BLOCKS(iq1_m, Floats<forge::half_t>, BlockIQ1_M)
