// Weights as Hopper's matrix units take them: in tiles of 64 rows, a tile in chunks of CHUNK elements, a chunk in four
// units of sixteen rows. A unit holds, for each step of sixteen elements, what each lane of a wave brings to an
// instruction of 16 x 16: of rows g and g + 8, g = lane / 4, the elements 2 t, 2 t + 1 and 2 t + 8, 2 t + 9, t = lane
// % 4. Quantized weights become f16 in registers, scale * quant + minimum, rounded once; scales are f16 themselves.
//
// Below 2048 the bits of an f16 are a whole number of 2^-24, subnormal or not: quants that stand low in their half are
// numbers already, and the scale carries the inverse. So that it stays in range, what becomes of quantized weights is
// 1 / SCALE of what they are; who sums multiplies by it.
//
//   format   bits  from                of a lane and unit
//   Floats   16    F16, BF16, MXFP4    four times 16 bytes: a step each
//   Quant2   4     Q2_K                8 bytes: a word two steps, of two bits each; scale and offset every sixteen
//                                      elements
//   Quant3   4     Q3_K                the same, and a word of third bits; a scale every sixteen elements
//   Quant4   5     Q4_0, Q4_1, Q4_K    16 bytes: a word a step, nibble 4 e + a, turned left by TURN bits, of element e
//                                      of part a; scale and offset
//   Quant5   6     Q5_0, Q5_1, Q5_K    the same, and a word of fifth bits
//   Quant6   7     Q6_K                the same, and two words of two bits each; a scale every sixteen elements
//   Quant8   8.5   Q8_0                twice 16 bytes: a byte an element, 128 more than it is; a scale
//   Levels4  4.5   IQ4_NL, IQ4_XS      16 bytes: a word a step, nibble 4 (a / 2) + 2 e + a % 2 the place of a level; a
//                                      scale
//
// Rows and elements that a matrix does not have are zeros. pack_fragments.hip writes all of this.
#pragma once

#include "../halves.h"
#include "../levels.h"
#include "../words.h"
#include "columns.h"

namespace forge {

constexpr int STEP = 16, STEPS = CHUNK / STEP, GROUP_ROWS = 16;
constexpr int TILE_ROWS = FRAGMENT_TILE_ROWS, TILE_GROUPS = TILE_ROWS / GROUP_ROWS;

// Address of the unit of a row group and a chunk.
template <class F>
DEVICE size_t unit_place(int group, int chunk, int chunks) {
  return ((static_cast<size_t>(group / TILE_GROUPS) * chunks + chunk) * TILE_GROUPS + group % TILE_GROUPS) * F::BYTES;
}

// Elements of a lane in each step of a unit: parts 0 and 2 of row g, 1 and 3 of row g + 8.
struct UnitFragments {
  uint32_t parts[STEPS][4];
};
// Addresses of a lane's data in a unit: its pieces, its rows' scales, and its words of high bits behind the
// pieces.
// Pointers of their own, so that units that follow are at offsets which an instruction takes.
struct LaneUnit {
  const uint8_t *pieces, *scales, *high;
};
template <class F>
DEVICE LaneUnit lane_unit(const uint8_t* unit, int lane) {
  return {unit + lane * F::PIECE_BYTES, unit + F::SCALES + lane / 4 * F::SCALE_BYTES,
          unit + 32 * F::PIECE_BYTES + lane * F::HIGH_BYTES};
}
DEVICE LaneUnit unit_after(const LaneUnit& unit, int bytes) {
  return {unit.pieces + bytes, unit.scales + bytes, unit.high + bytes};
}
// Element and row of the lower half of part a.
DEVICE int part_row(int lane, int a) { return lane / 4 + a % 2 * 8; }
DEVICE int part_element(int lane, int a) { return lane % 4 * 2 + a / 2 * 8; }

// unit.parts[s][a] = part(s, a) for all of a unit.
template <class Part>
DEVICE void fill_unit(UnitFragments& unit, Part part) {
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    UNROLL
    for (int a = 0; a < 4; a++) unit.parts[s][a] = part(s, a);
  }
}

static_assert(FRAGMENT_F16_BYTES == FRAGMENT_BF16_BYTES, "Floats is both");
template <class T>
struct Floats {
  using Element = T;
  static constexpr float SCALE = 1.0f;
  static constexpr int BYTES = FRAGMENT_F16_BYTES, PIECE_BYTES = 16, SCALES = 0, SCALE_BYTES = 0, HIGH_BYTES = 0;
  struct Raw {
    Words4 steps[STEPS];
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    Raw raw;
    UNROLL
    for (int s = 0; s < STEPS; s++) raw.steps[s] = load(unit.pieces + s * 512, Words4{});
    return raw;
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) { return raw.steps[s].w[a]; });
  }
};

// Part a of a step, from the word that holds the nibbles of all. In even parts, which are of row g, nibbles begin at
// bit TURN, in odd ones, of row g + 8, at bit TURN + 4.
template <int TURN>
DEVICE uint32_t quants_of(uint32_t word, int a) {
  const uint32_t rotated = a < 2 ? word : word >> 8 | word << 24;
  return rotated & 0x000f000fu << (TURN + a % 2 * 4);
}
// BITS bits of each half, moved from one place to another.
template <int BITS>
DEVICE uint32_t bits_of(uint32_t word, int from, int to) {
  return (from > to ? word >> (from - to) : word << (to - from)) & (BITS == 1 ? 0x00010001u : 0x00030003u) << to;
}
// Position of the two bits of part a of step s in each half of word s / 2, and of its single bit in a word.
DEVICE int pair_place(int s, int a) { return 8 * (s % 2) + 2 * a; }
DEVICE int bit_place(int s, int a) { return 4 * s + a; }

// Scale and offset of each step: of row g, then of row g + 8. In even parts quants begin at bit TURN, in odd ones at
// bit TURN + APART.
struct Quant2 {
  using Element = half_t;
  static constexpr int TURN = 6, APART = 2;
  static constexpr float SCALE = 8.0f, MIDDLE = 1.5f;
  static constexpr int BYTES = FRAGMENT_Q2_BYTES, PIECE_BYTES = 8, SCALES = 256, SCALE_BYTES = 32, HIGH_BYTES = 0;
  struct Raw {
    Words2 quants;
    Words4 scales[2];
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words2{}), {load(unit.scales, Words4{}), load(unit.scales + 16, Words4{})}};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t scale = raw.scales[a % 2].w[s];
      const uint32_t quants = bits_of<2>(raw.quants.w[s / 2], pair_place(s, a), TURN + a % 2 * APART);
      return multiply_add_halves(quants, low_halves(scale), high_halves(scale));
    });
  }
};

// The scales of steps 0 and 1 of row g, of steps 2 and 3; the same of row g + 8. TURN and APART as above.
struct Quant3 {
  using Element = half_t;
  static constexpr int TURN = 6, APART = 2;
  static constexpr float SCALE = 8.0f;
  // -4 2^-18 and -4 2^-16.
  static constexpr uint32_t ZEROS_OF_EVEN = 0x81008100u, ZEROS_OF_ODD = 0x84008400u;
  static constexpr int BYTES = FRAGMENT_Q3_BYTES, PIECE_BYTES = 8, SCALES = 384, SCALE_BYTES = 16, HIGH_BYTES = 4;
  struct Raw {
    Words2 quants;
    Words4 scales;
    uint32_t high;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words2{}), load(unit.scales, Words4{}), load(unit.high, uint32_t{})};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const int to = TURN + a % 2 * APART;
      const uint32_t both = raw.scales.w[a % 2 * 2 + s / 2];
      const uint32_t scale = s % 2 == 0 ? low_halves(both) : high_halves(both);
      // Four less: exact, as the scale is multiplied by a power of two.
      const uint32_t offset = multiply_halves(scale, a % 2 == 0 ? ZEROS_OF_EVEN : ZEROS_OF_ODD);
      const uint32_t quants =
          bits_of<2>(raw.quants.w[s / 2], pair_place(s, a), to) | bits_of<1>(raw.high, bit_place(s, a), to + 2);
      return multiply_add_halves(quants, scale, offset);
    });
  }
};

// Scale and offset of two blocks of 32 for rows g and g + 8: words 0 and 1, 2 and 3.
struct Quant4 {
  using Element = half_t;
  static constexpr int TURN = 2, APART = 4;
  static constexpr float SCALE = 64.0f, MIDDLE = 7.5f;
  static constexpr int BYTES = FRAGMENT_Q4_BYTES, PIECE_BYTES = 16, SCALES = 512, SCALE_BYTES = 16, HIGH_BYTES = 0;
  struct Raw {
    Words4 quants, scales;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words4{})};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t scale = raw.scales.w[a % 2 * 2 + s / 2];
      return multiply_add_halves(quants_of<TURN>(raw.quants.w[s], a), low_halves(scale), high_halves(scale));
    });
  }
};

struct Quant5 {
  using Element = half_t;
  static constexpr int TURN = 2, APART = 4;
  static constexpr float SCALE = 64.0f, MIDDLE = 15.5f;
  static constexpr int BYTES = FRAGMENT_Q5_BYTES, PIECE_BYTES = 16, SCALES = 640, SCALE_BYTES = 16, HIGH_BYTES = 4;
  struct Raw {
    Words4 quants, scales;
    uint32_t high;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words4{}), load(unit.high, uint32_t{})};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t scale = raw.scales.w[a % 2 * 2 + s / 2];
      const uint32_t fifth = bits_of<1>(raw.high, bit_place(s, a), TURN + a % 2 * APART + 4);
      const uint32_t quants = quants_of<TURN>(raw.quants.w[s], a) | fifth;
      return multiply_add_halves(quants, low_halves(scale), high_halves(scale));
    });
  }
};

// The scales of steps 0 and 1 of row g, of steps 2 and 3; the same of row g + 8.
struct Quant6 {
  using Element = half_t;
  static constexpr int TURN = 1, APART = 4;
  static constexpr float SCALE = 64.0f;
  // -32 2^-23 and -32 2^-19.
  static constexpr uint32_t ZEROS_OF_EVEN = 0x80408040u, ZEROS_OF_ODD = 0x84008400u;
  static constexpr int BYTES = FRAGMENT_Q6_BYTES, PIECE_BYTES = 16, SCALES = 768, SCALE_BYTES = 16, HIGH_BYTES = 8;
  struct Raw {
    Words4 quants, scales;
    Words2 high;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words4{}), load(unit.high, Words2{})};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t both = raw.scales.w[a % 2 * 2 + s / 2];
      const uint32_t scale = s % 2 == 0 ? low_halves(both) : high_halves(both);
      // 32 less: exact, as the scale is multiplied by a power of two.
      const uint32_t offset = multiply_halves(scale, a % 2 == 0 ? ZEROS_OF_EVEN : ZEROS_OF_ODD);
      const uint32_t high = bits_of<2>(raw.high.w[s / 2], pair_place(s, a), TURN + a % 2 * APART + 4);
      const uint32_t quants = quants_of<TURN>(raw.quants.w[s], a) | high;
      return multiply_add_halves(quants, scale, offset);
    });
  }
};

// The scales of blocks 0 and 1 of row g; the same of row g + 8.
struct Quant8 {
  using Element = half_t;
  static constexpr float SCALE = 1.0f;
  static constexpr int BYTES = FRAGMENT_Q8_BYTES, PIECE_BYTES = 16, SCALES = 1024, SCALE_BYTES = 8, HIGH_BYTES = 0;
  struct Raw {
    Words4 quants[2];
    Words2 scales;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {{load(unit.pieces, Words4{}), load(unit.pieces + 512, Words4{})}, load(unit.scales, Words2{})};
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t word = raw.quants[s / 2].w[s % 2 * 2 + a / 2], scale = raw.scales.w[a % 2];
      const uint32_t quants = subtract_halves(halves_of_bytes(word, a % 2), 0x64806480u);
      return multiply_halves(quants, s / 2 == 0 ? low_halves(scale) : high_halves(scale));
    });
  }
};

// Scales as Quant8's. A level, 128 more than it is, is the low byte of a half: a number already, as quants are.
struct Levels4 {
  using Element = half_t;
  static constexpr int TURN = 0, APART = 0;
  static constexpr float SCALE = 64.0f;
  static constexpr uint32_t ZEROS = 0x80808080u;  // -128 2^-24
  static constexpr int BYTES = FRAGMENT_IQ4_BYTES, PIECE_BYTES = 16, SCALES = 512, SCALE_BYTES = 8, HIGH_BYTES = 0;
  struct Raw {
    Words4 places;
    Words2 scales;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words2{})};
  }
  // The levels, 128 more than they are, that four nibbles name.
  DEVICE uint32_t levels_of(uint32_t nibbles) {
    constexpr uint32_t MORE = 0x80808080u;
    const uint32_t places = nibbles & 0x7777u;
    const uint32_t below = bytes_of_nibbles(LEVELS_0 ^ MORE, LEVELS_4 ^ MORE, places);
    const uint32_t above = bytes_of_nibbles(LEVELS_8 ^ MORE, LEVELS_12 ^ MORE, places);
    return bytes_of_nibbles(below, above, 0x3210u | (nibbles & 0x8888u) >> 1);
  }
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t levels = levels_of(raw.places.w[s] >> (a / 2 * 16));
      const uint32_t both = raw.scales.w[a % 2], scale = s / 2 == 0 ? low_halves(both) : high_halves(both);
      return multiply_add_halves(levels >> (a % 2 * 8) & 0x00ff00ffu, scale, multiply_halves(scale, ZEROS));
    });
  }
};

}  // namespace forge
