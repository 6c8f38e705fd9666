// Quantized weights as GPUs read them. A row of `in` elements, `in` a multiple of 64, is a few planes that follow each
// other, padded to 16 bytes: a lane takes whole blocks of 32 elements by loads of 16 bytes, and neighbouring lanes take
// neighbouring bytes. A packed row is no longer than the file's but for the padding.
//
//   quants   16 bytes a block of 32: byte j holds the low four bits of element j, and those of j + 16 in its high
//            nibble. Of Q8_0: elements 0 .. 15; a second plane of the same kind holds 16 .. 31
//   high     Q5_x: 4 bytes a block, bit 8 j + w the fifth bit of element 4 w + j. Q6_K: 8 bytes, of each sixteen
//            elements bits 8 j + 2 w and the next the top two bits of element 4 w + j
//   scales   as in the file: f16 (Q4_0, Q5_0, Q8_0), two f16 (Q4_1, Q5_1), 16 bytes a super-block (Q4_K, Q5_K);
//            Q6_K: two int8 a block, then, a plane of its own, one f16 a super-block
//
// repack.hip writes it. `blocks` are of 32 elements throughout.
#pragma once

#include "blocks.h"
#include "q8.h"
#include "words.h"

namespace forge {

DEVICE float half_of(uint32_t bits) {
  const uint16_t low = static_cast<uint16_t>(bits);
  return load_half(reinterpret_cast<const uint8_t*>(&low));
}

// The quants of a block: how a lane holds them (Part), brings them and takes four of them as bytes below 2^BITS; and
// how they are written, from one byte an element.
template <int BITS>
struct PackedQuants;

template <>
struct PackedQuants<8> {
  struct Part {
    Words4 low, high;
  };
  DEVICE int bytes(int blocks) { return 32 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int blocks) {
    return {load_constant<Words4>(row + 16 * b), load_constant<Words4>(row + 16 * (blocks + b))};
  }
  DEVICE int32_t word(const Part& p, int w) { return static_cast<int32_t>(w < 4 ? p.low.w[w] : p.high.w[w - 4]); }
  DEVICE void store(uint8_t* row, int b, int blocks, const uint8_t* quants) {
    for (int i = 0; i < 16; i++) {
      row[16 * b + i] = quants[i];
      row[16 * (blocks + b) + i] = quants[16 + i];
    }
  }
};

template <>
struct PackedQuants<4> {
  using Part = Words4;
  DEVICE int bytes(int blocks) { return 16 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int) { return load_constant<Words4>(row + 16 * b); }
  DEVICE int32_t word(const Part& p, int w) {
    return static_cast<int32_t>((w < 4 ? p.w[w] : p.w[w - 4] >> 4) & 0x0f0f0f0fu);
  }
  DEVICE void store(uint8_t* row, int b, int, const uint8_t* quants) {
    for (int i = 0; i < 16; i++) row[16 * b + i] = static_cast<uint8_t>((quants[i] & 15) | (quants[16 + i] & 15) << 4);
  }
};

template <>
struct PackedQuants<5> {
  struct Part {
    Words4 low;
    uint32_t high;
  };
  DEVICE int bytes(int blocks) { return 20 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int blocks) {
    return {PackedQuants<4>::load(row, b, blocks), load_constant<uint32_t>(row + 16 * blocks + 4 * b)};
  }
  DEVICE int32_t word(const Part& p, int w) {
    return PackedQuants<4>::word(p.low, w) | static_cast<int32_t>((p.high >> w & 0x01010101u) << 4);
  }
  DEVICE void store(uint8_t* row, int b, int blocks, const uint8_t* quants) {
    PackedQuants<4>::store(row, b, blocks, quants);
    uint32_t high = 0;
    for (int i = 0; i < 32; i++) high |= static_cast<uint32_t>(quants[i] >> 4 & 1) << (8 * (i % 4) + i / 4);
    store_aligned(row + 16 * blocks + 4 * b, high);
  }
};

template <>
struct PackedQuants<6> {
  struct Part {
    Words4 low;
    Words2 high;
  };
  DEVICE int bytes(int blocks) { return 24 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int blocks) {
    return {PackedQuants<4>::load(row, b, blocks), load_constant<Words2>(row + 16 * blocks + 8 * b)};
  }
  DEVICE int32_t word(const Part& p, int w) {
    const uint32_t high = p.high.w[w / 4] >> (2 * (w % 4)) & 0x03030303u;
    return PackedQuants<4>::word(p.low, w) | static_cast<int32_t>(high << 4);
  }
  DEVICE void store(uint8_t* row, int b, int blocks, const uint8_t* quants) {
    PackedQuants<4>::store(row, b, blocks, quants);
    Words2 high{{0, 0}};
    for (int i = 0; i < 32; i++) {
      high.w[i / 16] |= static_cast<uint32_t>(quants[i] >> 4) << (8 * (i % 4) + 2 * (i % 16 / 4));
    }
    store_aligned(row + 16 * blocks + 8 * b, high);
  }
};

// The scales of a block, behind the row's `at` bytes of quants; b is the block's number, which a super-block's scales
// are chosen by. `store` takes the file's block.
struct HalfScale {
  using Part = uint16_t;
  DEVICE int bytes(int blocks) { return 2 * blocks; }
  DEVICE Part load(const uint8_t* plane, int b, int) { return load_constant<uint16_t>(plane + 2 * b); }
  DEVICE float scale(const Part& p, int) { return half_of(p); }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE void store(uint8_t* plane, int b, int, const uint8_t* block) {
    store_aligned(plane + 2 * b, load_unaligned<uint16_t>(block));
  }
};

struct HalfScaleAndMinimum {
  using Part = uint32_t;
  DEVICE int bytes(int blocks) { return 4 * blocks; }
  DEVICE Part load(const uint8_t* plane, int b, int) { return load_constant<uint32_t>(plane + 4 * b); }
  DEVICE float scale(const Part& p, int) { return half_of(p); }
  DEVICE float minimum(const Part& p, int) { return -half_of(p >> 16); }
  DEVICE void store(uint8_t* plane, int b, int, const uint8_t* block) {
    store_aligned(plane + 4 * b, load_unaligned<uint32_t>(block));
  }
};

struct SuperScales {
  using Part = Words4;
  DEVICE int bytes(int blocks) { return 2 * blocks; }
  DEVICE Part load(const uint8_t* plane, int b, int) { return load_constant<Words4>(plane + 16 * (b / 8)); }
  // packed_scale and packed_minimum of blocks.h, four at a time.
  DEVICE float scale(const Part& p, int b) {
    const uint32_t four = b % 8 < 4 ? p.w[1] & 0x3f3f3f3fu : (p.w[3] & 0x0f0f0f0fu) | (p.w[1] >> 2 & 0x30303030u);
    return half_of(p.w[0]) * static_cast<float>(four >> (8 * (b % 4)) & 0xff);
  }
  DEVICE float minimum(const Part& p, int b) {
    const uint32_t four = b % 8 < 4 ? p.w[2] & 0x3f3f3f3fu : (p.w[3] >> 4 & 0x0f0f0f0fu) | (p.w[2] >> 2 & 0x30303030u);
    return half_of(p.w[0] >> 16) * static_cast<float>(four >> (8 * (b % 4)) & 0xff);
  }
  DEVICE void store(uint8_t* plane, int b, int, const uint8_t* block) {
    if (b % 8 == 0) store_aligned(plane + 2 * b, load_unaligned<Words4>(block));
  }
};

// Sixteen elements share an int8 scale, a super-block an f16 one.
struct HalvesScales {
  struct Part {
    uint16_t halves, all;
  };
  DEVICE int bytes(int blocks) { return 2 * blocks + blocks / 4; }
  DEVICE Part load(const uint8_t* plane, int b, int blocks) {
    return {load_constant<uint16_t>(plane + 2 * b), load_constant<uint16_t>(plane + 2 * blocks + 2 * (b / 8))};
  }
  DEVICE float scale(const Part& p, int) { return half_of(p.all); }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE int half_scale(const Part& p, int half) { return static_cast<int8_t>(p.halves >> (8 * half)); }
  DEVICE void store(uint8_t* plane, int b, int blocks, const uint8_t* block) {
    store_aligned(plane + 2 * b, load_unaligned<uint16_t>(block + 192 + 2 * (b % 8)));
    if (b % 8 == 0) store_aligned(plane + 2 * blocks + b / 4, load_unaligned<uint16_t>(block + 208));
  }
};

// A format: where its blocks come from, how its planes lie, and what its quants are too large by.
template <class Source_, int BITS, int ZERO_, class Scales_>
struct Packed {
  using Source = Source_;
  using Quants = PackedQuants<BITS>;
  using Scales = Scales_;
  static constexpr int ZERO = ZERO_;
  static constexpr bool HAS_MINIMUM = Source::HAS_MINIMUM, HAS_HALF_SCALES = BITS == 6;
  static constexpr bool HAS_HIGH_PLANE = BITS == 5 || BITS == 6;
  static constexpr bool USES_SUMS = ZERO != 0 || HAS_MINIMUM;
};
using PackedQ4_0 = Packed<BlockQ4_0, 4, 8, HalfScale>;
using PackedQ4_1 = Packed<BlockQ4_1, 4, 0, HalfScaleAndMinimum>;
using PackedQ5_0 = Packed<BlockQ5_0, 5, 16, HalfScale>;
using PackedQ5_1 = Packed<BlockQ5_1, 5, 0, HalfScaleAndMinimum>;
using PackedQ8_0 = Packed<BlockQ8_0, 8, 0, HalfScale>;
using PackedQ4_K = Packed<BlockQ4_K, 4, 0, SuperScales>;
using PackedQ5_K = Packed<BlockQ5_K, 5, 0, SuperScales>;
using PackedQ6_K = Packed<BlockQ6_K, 6, 32, HalvesScales>;

template <class F>
DEVICE size_t packed_row_bytes(int blocks) {
  return static_cast<size_t>(F::Quants::bytes(blocks) + F::Scales::bytes(blocks) + 15) / 16 * 16;
}

// What a lane holds of one block of weights, and of one block of quantized activations.
template <class F>
struct WeightPart {
  typename F::Quants::Part quants;
  typename F::Scales::Part scales;
};
template <class F>
DEVICE WeightPart<F> load_weight(const uint8_t* row, int b, int blocks) {
  return {F::Quants::load(row, b, blocks), F::Scales::load(row + F::Quants::bytes(blocks), b, blocks)};
}

struct InputPart {
  Words4 low, high;
  float scale;
  int sum_low, sum_high;
};
// Block b of the row `offset` bytes behind x, a row of `in` elements as q8.h lays it out.
template <class F>
DEVICE InputPart load_input(const uint8_t* x, int offset, int in, int b) {
  // Unsigned 32-bit offsets: a GPU then adds them to x in the load itself.
  const uint8_t* quants = x + static_cast<uint32_t>(offset + 32 * b);
  const uint8_t* scales = x + static_cast<uint32_t>(offset + in + 4 * b);
  InputPart part{load_aligned<Words4>(quants), load_aligned<Words4>(quants + 16), load_aligned<float>(scales), 0, 0};
  if (F::USES_SUMS) {
    const auto both = load_aligned<uint32_t>(scales + in / 8);
    part.sum_low = static_cast<int16_t>(both);
    part.sum_high = static_cast<int16_t>(both >> 16);
  }
  return part;
}

// sum + the products of block b. Those of quants are whole numbers below 2^24, exact in any order:
//
//   sum = fma(float(sum of quant * quant), weight scale * activation scale, sum)
//   sum = fma(-weight minimum, activation scale * float(sum of quants), sum)
template <class F>
DEVICE float add_block(float sum, const WeightPart<F>& w, const InputPart& x, int b) {
  int low = 0, high = 0;
  UNROLL
  for (int i = 0; i < 4; i++) {
    low = dot4(F::Quants::word(w.quants, i), static_cast<int>(x.low.w[i]), low);
    high = dot4(F::Quants::word(w.quants, i + 4), static_cast<int>(x.high.w[i]), high);
  }
  int products;
  if constexpr (F::HAS_HALF_SCALES) {
    products = (low - F::ZERO * x.sum_low) * F::Scales::half_scale(w.scales, 0) +
               (high - F::ZERO * x.sum_high) * F::Scales::half_scale(w.scales, 1);
  } else {
    products = low + high - F::ZERO * (x.sum_low + x.sum_high);
  }
  sum = multiply_add(static_cast<float>(products), F::Scales::scale(w.scales, b) * x.scale, sum);
  if (F::HAS_MINIMUM) {
    const float sums = x.scale * static_cast<float>(x.sum_low + x.sum_high);
    sum = multiply_add(-F::Scales::minimum(w.scales, b), sums, sum);
  }
  return sum;
}

}  // namespace forge
