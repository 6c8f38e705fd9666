// The IQ formats whose elements are named eight or four at a time, by an index into a table (grids.h); a bit more an
// element, or eight, is a sign, or IQ1's shift. llama.cpp's ggml-common.h and ggml-quants.c state them. Sixteen
// elements share an odd whole number, the block an f16. One struct a format, as in blocks.h, and
//
//   codes(block, s, l)       of elements 32 s + 8 l and the seven behind it, CODE_BITS each, the first one's lowest
//   flags(block, s, l)       a bit each: the sign, or the direction of the shift
//   whole_scale(block, h)    of elements 16 h and the fifteen behind it
//   factor(block)            f32, of all
//
// What is stored is the place of a level: the code, and 8 more where the flag is set.
#pragma once

#include "blocks.h"
#include "grids.h"

namespace forge {

// Four codes, each in a byte of its own.
template <int CODE_BITS>
DEVICE uint32_t spread_codes(uint32_t codes) {
  if (CODE_BITS == 2) return (codes & 3) | (codes & 0xc) << 6 | (codes & 0x30) << 12 | (codes & 0xc0) << 18;
  return (codes & 7) | (codes & 0x38) << 5 | (codes & 0x1c0) << 10 | (codes & 0xe00) << 15;
}
// Seven signs, and the eighth, which makes their number even.
DEVICE uint32_t even_signs(uint32_t seven) {
  uint32_t odd = seven ^ seven >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return seven | (odd & 1) << 7;
}
DEVICE int nibble_of(const uint8_t* bytes, int i) { return bytes[i / 2] >> (4 * (i % 2)) & 15; }

template <class F, int CODE_BITS_, const int8_t (&LEVELS_)[16]>
struct GridBlock : Levels<LEVELS_> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = true;
  static constexpr int CODE_BITS = CODE_BITS_;
  static constexpr const int8_t (&LEVELS)[16] = LEVELS_;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    const int s = i / 32, l = i % 32 / 8, e = i % 8;
    return spread_codes<CODE_BITS>(F::codes(b, s, l) >> (CODE_BITS * e)) |
           spread_fifth_bits(F::flags(b, s, l) >> e) >> 1;
  }
  DEVICE float scale(const uint8_t* b, int i) { return F::factor(b) * static_cast<float>(F::whole_scale(b, i / 16)); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// Each 32 elements: four indices, then four times seven signs and a scale of four bits in a word.
struct BlockIQ2_XXS : FormatIQ2_XXS, GridBlock<BlockIQ2_XXS, 2, LEVELS_IQ2> {
  DEVICE uint32_t word(const uint8_t* b, int s) { return load_unaligned<uint32_t>(b + 6 + 8 * s); }
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) { return GRID_IQ2_XXS.codes[b[2 + 8 * s + l]]; }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return even_signs(word(b, s) >> (7 * l) & 127); }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * static_cast<int>(word(b, h / 2) >> 28) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b) * 0.125f; }
};

// An index of nine bits and seven signs in sixteen; scales are nibbles.
struct BlockIQ2_XS : FormatIQ2_XS, GridBlock<BlockIQ2_XS, 2, LEVELS_IQ2> {
  DEVICE uint32_t both(const uint8_t* b, int s, int l) { return load_unaligned<uint16_t>(b + 2 + 8 * s + 2 * l); }
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) { return GRID_IQ2_XS.codes[both(b, s, l) & 511]; }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return even_signs(both(b, s, l) >> 9); }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * nibble_of(b + 66, h) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b) * 0.125f; }
};

// The low bytes of indices, all signs, the indices' top two bits, scales as nibbles.
struct BlockIQ2_S : FormatIQ2_S, GridBlock<BlockIQ2_S, 2, LEVELS_IQ2> {
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) {
    return GRID_IQ2_S.codes[b[2 + 4 * s + l] | (b[66 + s] >> (2 * l) & 3) << 8];
  }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return b[34 + 4 * s + l]; }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * nibble_of(b + 74, h) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b) * 0.125f; }
};

// All indices, then words as those of IQ2_XXS.
struct BlockIQ3_XXS : FormatIQ3_XXS, GridBlock<BlockIQ3_XXS, 3, LEVELS_IQ3_XXS> {
  DEVICE uint32_t word(const uint8_t* b, int s) { return load_unaligned<uint32_t>(b + 66 + 4 * s); }
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) {
    const uint8_t* indices = b + 2 + 8 * s + 2 * l;
    return GRID_IQ3_XXS.codes[indices[0]] | static_cast<uint32_t>(GRID_IQ3_XXS.codes[indices[1]]) << 12;
  }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return even_signs(word(b, s) >> (7 * l) & 127); }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * static_cast<int>(word(b, h / 2) >> 28) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b) * 0.25f; }
};

// The low bytes of indices, their ninth bits, all signs, scales as nibbles of 32 elements each.
struct BlockIQ3_S : FormatIQ3_S, GridBlock<BlockIQ3_S, 3, LEVELS_IQ3_S> {
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) {
    const uint8_t* indices = b + 2 + 8 * s + 2 * l;
    const int ninth = b[66 + s] >> (2 * l);
    return GRID_IQ3_S.codes[indices[0] | (ninth & 1) << 8] |
           static_cast<uint32_t>(GRID_IQ3_S.codes[indices[1] | (ninth & 2) << 7]) << 12;
  }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return b[74 + 4 * s + l]; }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * nibble_of(b + 106, h / 2) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b); }
};

// The low bytes of indices; then of each 32 elements the indices' top three bits, a scale of three and the shift's
// direction.
struct BlockIQ1_S : FormatIQ1_S, GridBlock<BlockIQ1_S, 2, LEVELS_IQ1> {
  DEVICE uint32_t high(const uint8_t* b, int s) { return load_unaligned<uint16_t>(b + 34 + 2 * s); }
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) {
    return GRID_IQ1.codes[b[2 + 4 * s + l] | (high(b, s) >> (3 * l) & 7) << 8];
  }
  DEVICE uint32_t flags(const uint8_t* b, int s, int) { return high(b, s) >> 15 != 0 ? 255 : 0; }
  DEVICE int whole_scale(const uint8_t* b, int h) { return 2 * static_cast<int>(high(b, h / 2) >> 12 & 7) + 1; }
  DEVICE float factor(const uint8_t* b) { return load_half(b) * 0.125f; }
};

// The same with a nibble of each eight elements for the index and the shift, and three bits of each sixteen for the
// scale, in four words of sixteen whose tops are the nibbles of the f16.
struct BlockIQ1_M : FormatIQ1_M, GridBlock<BlockIQ1_M, 2, LEVELS_IQ1> {
  DEVICE uint32_t word(const uint8_t* b, int w) { return load_unaligned<uint16_t>(b + 48 + 2 * w); }
  DEVICE uint32_t codes(const uint8_t* b, int s, int l) {
    return GRID_IQ1.codes[b[4 * s + l] | (nibble_of(b + 32, 4 * s + l) & 7) << 8];
  }
  DEVICE uint32_t flags(const uint8_t* b, int s, int l) { return nibble_of(b + 32, 4 * s + l) >= 8 ? 255 : 0; }
  DEVICE int whole_scale(const uint8_t* b, int h) {
    return 2 * static_cast<int>(word(b, h / 4) >> (3 * (h % 4)) & 7) + 1;
  }
  DEVICE float factor(const uint8_t* b) {
    uint16_t bits = 0;
    for (int w = 0; w < 4; w++) bits = static_cast<uint16_t>(bits | word(b, w) >> 12 << (4 * w));
    return load_half(reinterpret_cast<const uint8_t*>(&bits)) * 0.125f;
  }
};

}  // namespace forge
