// Weights as Hopper's matrix units take them: in tiles of 64 rows, a tile in chunks of CHUNK elements, a chunk in four
// units of sixteen rows. A unit holds, for each step of sixteen elements, what each lane of a wave brings to an
// instruction of 16 x 16: of rows g and g + 8, g = lane / 4, the elements 2 t, 2 t + 1 and 2 t + 8, 2 t + 9, t = lane
// % 4. Quantized weights become f16 in registers, scale * quant + minimum, rounded once; scales are f16 themselves.
//
// Below 2048 the bits of an f16 are a whole number of 2^-24, subnormal or not: quants that stand low in their half are
// numbers already, and the scale carries the inverse. So that it stays in range, quantized weights of four to six bits
// are 2^-6 of what they are; who sums multiplies by SCALE.
//
//   format  bits  from                of a lane and unit
//   Floats  16    F16, BF16           four times 16 bytes: a step each
//   Quant4  5     Q4_0, Q4_1, Q4_K    16 bytes: a word a step, nibble 4 e + a, turned left by TURN bits, of element e
//                                     of part a; scale and offset
//   Quant5  6     Q5_0, Q5_1, Q5_K    the same, and a word of fifth bits
//   Quant6  7     Q6_K                the same, and two words of two bits each; a scale every sixteen elements
//   Quant8  8.5   Q8_0                twice 16 bytes: a byte an element, 128 more than it is; a scale
//
// Rows and elements that a matrix does not have are zeros. pack_fragments.hip writes all of this.
#pragma once

#include "columns.h"
#include "halves.h"
#include "words.h"

namespace forge {

constexpr int STEP = 16, STEPS = CHUNK / STEP, GROUP_ROWS = 16;
constexpr int TILE_ROWS = FRAGMENT_TILE_ROWS, TILE_GROUPS = TILE_ROWS / GROUP_ROWS;

// Where the unit of a row group and a chunk lies.
template <class F>
DEVICE size_t unit_place(int group, int chunk, int chunks) {
  return ((static_cast<size_t>(group / TILE_GROUPS) * chunks + chunk) * TILE_GROUPS + group % TILE_GROUPS) * F::BYTES;
}

// What a lane brings to each step of a unit: parts 0 and 2 of row g, 1 and 3 of row g + 8.
struct UnitFragments {
  uint32_t parts[STEPS][4];
};
// Where what a lane brings of a unit begins: of its pieces of 16 bytes, of its rows' scales, of its words of high bits.
// Pointers of their own, so that units that follow are at offsets which an instruction takes.
struct LaneUnit {
  const uint8_t *pieces, *scales, *high;
};
template <class F>
DEVICE LaneUnit lane_unit(const uint8_t* unit, int lane) {
  return {unit + lane * 16, unit + F::SCALES + lane / 4 * F::SCALE_BYTES, unit + 512 + lane * F::HIGH_BYTES};
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
  static constexpr int BYTES = FRAGMENT_F16_BYTES, SCALES = 0, SCALE_BYTES = 0, HIGH_BYTES = 0;
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
// bit TURN, in odd ones, of row g + 8, at bit TURN + 4. `high` is what of the bits above them part a has.
template <int TURN>
DEVICE uint32_t quants_of(uint32_t word, int a) {
  const uint32_t turned = a < 2 ? word : word >> 8 | word << 24;
  return turned & 0x000f000fu << (TURN + a % 2 * 4);
}
template <int TURN, int BITS>
DEVICE uint32_t high_of(uint32_t word, int from, int a) {
  const int to = TURN + a % 2 * 4 + 4;
  return (from > to ? word >> (from - to) : word << (to - from)) & (BITS == 1 ? 0x00010001u : 0x00030003u) << to;
}

// Scale and offset of two blocks of 32 for rows g and g + 8: words 0 and 1, 2 and 3.
struct Quant4 {
  using Element = half_t;
  static constexpr int TURN = 2;
  static constexpr float SCALE = 64.0f;
  static constexpr int BYTES = FRAGMENT_Q4_BYTES, SCALES = 512, SCALE_BYTES = 16, HIGH_BYTES = 0;
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
  static constexpr int TURN = 2;
  static constexpr float SCALE = 64.0f;
  static constexpr int BYTES = FRAGMENT_Q5_BYTES, SCALES = 640, SCALE_BYTES = 16, HIGH_BYTES = 4;
  struct Raw {
    Words4 quants, scales;
    uint32_t high;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words4{}), load(unit.high, uint32_t{})};
  }
  // Bit 4 s + a of each half is the fifth of part a of step s.
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t scale = raw.scales.w[a % 2 * 2 + s / 2];
      const uint32_t quants = quants_of<TURN>(raw.quants.w[s], a) | high_of<TURN, 1>(raw.high, 4 * s + a, a);
      return multiply_add_halves(quants, low_halves(scale), high_halves(scale));
    });
  }
};

// The scales of steps 0 and 1 of row g, of steps 2 and 3; the same of row g + 8.
struct Quant6 {
  using Element = half_t;
  static constexpr int TURN = 1;
  static constexpr float SCALE = 64.0f;
  // -32 2^-23 and -32 2^-19.
  static constexpr uint32_t ZEROS_OF_EVEN = 0x80408040u, ZEROS_OF_ODD = 0x84008400u;
  static constexpr int BYTES = FRAGMENT_Q6_BYTES, SCALES = 768, SCALE_BYTES = 16, HIGH_BYTES = 8;
  struct Raw {
    Words4 quants, scales;
    Words2 high;
  };
  template <class Load>
  DEVICE Raw load(const LaneUnit& unit, Load load) {
    return {load(unit.pieces, Words4{}), load(unit.scales, Words4{}), load(unit.high, Words2{})};
  }
  // Bits 8 (s % 2) + 2 a and the next of each half of word s / 2 are the top ones of part a of step s.
  DEVICE void unpack(UnitFragments& unit, const Raw& raw) {
    fill_unit(unit, [&](int s, int a) {
      const uint32_t both = raw.scales.w[a % 2 * 2 + s / 2];
      const uint32_t scale = s % 2 == 0 ? low_halves(both) : high_halves(both);
      // 32 less: exact, as the scale is multiplied by a power of two.
      const uint32_t offset = multiply_halves(scale, a % 2 == 0 ? ZEROS_OF_EVEN : ZEROS_OF_ODD);
      const uint32_t quants =
          quants_of<TURN>(raw.quants.w[s], a) | high_of<TURN, 2>(raw.high.w[s / 2], 8 * (s % 2) + 2 * a, a);
      return multiply_add_halves(quants, scale, offset);
    });
  }
};

// The scales of blocks 0 and 1 of row g; the same of row g + 8.
struct Quant8 {
  using Element = half_t;
  static constexpr float SCALE = 1.0f;
  static constexpr int BYTES = FRAGMENT_Q8_BYTES, SCALES = 1024, SCALE_BYTES = 8, HIGH_BYTES = 0;
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

}  // namespace forge
