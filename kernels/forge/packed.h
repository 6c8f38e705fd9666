// Quantized weights as GPUs read them. A row of `in` elements, `in` a multiple of 64, is a few planes that follow each
// other, padded to 16 bytes: a lane takes whole blocks of 32 elements by loads of 16 bytes, and neighbouring lanes take
// neighbouring bytes. A packed row is no longer than the file's but for the padding.
//
//   quants   as blocks.h has them stored, in a plane or two: the low bits, then the high ones.
//            FourBits: 16 bytes a block of 32: byte j holds those of element j, and of j + 16 in its high nibble.
//            TwoBits: 8 bytes, of each sixteen elements bits 8 j + 2 w and the next those of element 4 w + j.
//            OneBit: 4 bytes, bit 8 j + w that of element 4 w + j.
//            EightBits: 16 bytes of elements 0 .. 15; a second plane of the same kind holds 16 .. 31
//   scales   as in the file: f16 (Q4_0, Q5_0, Q8_0, IQ4_NL), two f16 (Q4_1, Q5_1), a byte (MXFP4), 16 bytes a
//   super-block
//            (Q4_K, Q5_K) or 8 (IQ4_XS). Where halves have their own, those are a plane (Q2_K, Q6_K: two bytes a block;
//            Q3_K: 12 a super-block), and the f16 of super-blocks are another
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

// A plane of quants: how many BITS of each it holds, how a lane holds a block's (Part), brings them and takes four of
// them as bytes; and how they are written, from one byte an element.
struct EightBits {
  static constexpr int BITS = 8;
  struct Part {
    Words4 low, high;
  };
  DEVICE int bytes(int blocks) { return 32 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int blocks) {
    return {load_constant<Words4>(row + 16 * b), load_constant<Words4>(row + 16 * (blocks + b))};
  }
  DEVICE uint32_t word(const Part& p, int w) { return w < 4 ? p.low.w[w] : p.high.w[w - 4]; }
  DEVICE void store(uint8_t* row, int b, int blocks, const uint8_t* quants) {
    for (int i = 0; i < 16; i++) {
      row[16 * b + i] = quants[i];
      row[16 * (blocks + b) + i] = quants[16 + i];
    }
  }
};

struct FourBits {
  static constexpr int BITS = 4;
  using Part = Words4;
  DEVICE int bytes(int blocks) { return 16 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int) { return load_constant<Words4>(row + 16 * b); }
  DEVICE uint32_t word(const Part& p, int w) { return (w < 4 ? p.w[w] : p.w[w - 4] >> 4) & 0x0f0f0f0fu; }
  DEVICE void store(uint8_t* row, int b, int, const uint8_t* quants) {
    for (int i = 0; i < 16; i++) row[16 * b + i] = static_cast<uint8_t>((quants[i] & 15) | (quants[16 + i] & 15) << 4);
  }
};

struct TwoBits {
  static constexpr int BITS = 2;
  using Part = Words2;
  DEVICE int bytes(int blocks) { return 8 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int) { return load_constant<Words2>(row + 8 * b); }
  DEVICE uint32_t word(const Part& p, int w) { return p.w[w / 4] >> (2 * (w % 4)) & 0x03030303u; }
  DEVICE void store(uint8_t* row, int b, int, const uint8_t* quants) {
    Words2 bits{{0, 0}};
    for (int i = 0; i < 32; i++) {
      bits.w[i / 16] |= static_cast<uint32_t>(quants[i] & 3) << (8 * (i % 4) + 2 * (i % 16 / 4));
    }
    store_aligned(row + 8 * b, bits);
  }
};

struct OneBit {
  static constexpr int BITS = 1;
  using Part = uint32_t;
  DEVICE int bytes(int blocks) { return 4 * blocks; }
  DEVICE Part load(const uint8_t* row, int b, int) { return load_constant<uint32_t>(row + 4 * b); }
  DEVICE uint32_t word(const Part& p, int w) { return p >> w & 0x01010101u; }
  DEVICE void store(uint8_t* row, int b, int, const uint8_t* quants) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= static_cast<uint32_t>(quants[i] & 1) << (8 * (i % 4) + i / 4);
    store_aligned(row + 4 * b, bits);
  }
};

template <class Low, class High>
struct TwoPlanes {
  static constexpr int BITS = Low::BITS + High::BITS;
  struct Part {
    typename Low::Part low;
    typename High::Part high;
  };
  DEVICE int bytes(int blocks) { return Low::bytes(blocks) + High::bytes(blocks); }
  DEVICE Part load(const uint8_t* row, int b, int blocks) {
    return {Low::load(row, b, blocks), High::load(row + Low::bytes(blocks), b, blocks)};
  }
  DEVICE uint32_t word(const Part& p, int w) { return Low::word(p.low, w) | High::word(p.high, w) << Low::BITS; }
  DEVICE void store(uint8_t* row, int b, int blocks, const uint8_t* quants) {
    uint8_t tops[Q8_BLOCK];
    for (int i = 0; i < Q8_BLOCK; i++) tops[i] = quants[i] >> Low::BITS;
    Low::store(row, b, blocks, quants);
    High::store(row + Low::bytes(blocks), b, blocks, tops);
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

struct ByteExponent {
  using Part = uint8_t;
  DEVICE int bytes(int blocks) { return blocks; }
  DEVICE Part load(const uint8_t* plane, int b, int) { return load_constant<uint8_t>(plane + b); }
  DEVICE float scale(const Part& p, int) { return half_exponent(p); }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE void store(uint8_t* plane, int b, int, const uint8_t* block) { plane[b] = block[0]; }
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

// Eight 6-bit scales: see BlockIQ4_XS.
struct SuperLevels {
  using Part = Words2;
  DEVICE int bytes(int blocks) { return blocks; }
  DEVICE Part load(const uint8_t* plane, int b, int) { return load_constant<Words2>(plane + 8 * (b / 8)); }
  DEVICE float scale(const Part& p, int b) {
    const uint32_t low = p.w[1] >> (4 * (b % 8)) & 15, high = p.w[0] >> (16 + 2 * (b % 8)) & 3;
    return half_of(p.w[0]) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE void store(uint8_t* plane, int b, int, const uint8_t* block) {
    if (b % 8 == 0) store_aligned(plane + b, load_unaligned<Words2>(block));
  }
};

// If each half of a block has a whole-number scale of its own, and maybe a minimum, `halves` has both: int8 scales
// in bytes 0 and 1, minimums in 2 and 3. scale() and minimum() are the factors they share.
DEVICE int half_scale(int halves, int half) { return static_cast<int8_t>(halves >> (8 * half)); }
DEVICE int half_minimum(int halves, int half) { return halves >> (16 + 8 * half) & 255; }

// Q6_K: two int8 a block, then an f16 a super-block.
struct HalvesBytes {
  struct Part {
    uint16_t halves, all;
  };
  DEVICE int bytes(int blocks) { return 2 * blocks + blocks / 4; }
  DEVICE Part load(const uint8_t* plane, int b, int blocks) {
    return {load_constant<uint16_t>(plane + 2 * b), load_constant<uint16_t>(plane + 2 * blocks + 2 * (b / 8))};
  }
  DEVICE float scale(const Part& p, int) { return half_of(p.all); }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE int halves(const Part& p, int) { return p.halves; }
  DEVICE void store(uint8_t* plane, int b, int blocks, const uint8_t* block) {
    store_aligned(plane + 2 * b, load_unaligned<uint16_t>(block + 192 + 2 * (b % 8)));
    if (b % 8 == 0) store_aligned(plane + 2 * blocks + b / 4, load_unaligned<uint16_t>(block + 208));
  }
};

// Q2_K: two bytes a block, a scale and a minimum of four bits each; then two f16 a super-block.
struct HalvesNibbles {
  struct Part {
    uint16_t halves;
    uint32_t all;
  };
  DEVICE int bytes(int blocks) { return 2 * blocks + blocks / 2; }
  DEVICE Part load(const uint8_t* plane, int b, int blocks) {
    return {load_constant<uint16_t>(plane + 2 * b), load_constant<uint32_t>(plane + 2 * blocks + 4 * (b / 8))};
  }
  DEVICE float scale(const Part& p, int) { return half_of(p.all); }
  DEVICE float minimum(const Part& p, int) { return half_of(p.all >> 16); }
  DEVICE int halves(const Part& p, int) { return (p.halves & 0x0f0f) | (p.halves & 0xf0f0) << 12; }
  DEVICE void store(uint8_t* plane, int b, int blocks, const uint8_t* block) {
    store_aligned(plane + 2 * b, load_unaligned<uint16_t>(block + 2 * (b % 8)));
    if (b % 8 == 0) store_aligned(plane + 2 * blocks + b / 2, load_unaligned<uint32_t>(block + 80));
  }
};

// Q3_K: 12 bytes a super-block, as in the file (see BlockQ3_K); then an f16.
struct HalvesSixBits {
  struct Part {
    uint16_t low, high, all;
  };
  DEVICE int bytes(int blocks) { return 12 * (blocks / 8) + blocks / 4; }
  DEVICE Part load(const uint8_t* plane, int b, int blocks) {
    const uint8_t* twelve = plane + 12 * (b / 8);
    return {load_constant<uint16_t>(twelve + 2 * (b % 4)), load_constant<uint16_t>(twelve + 8 + 2 * (b % 2)),
            load_constant<uint16_t>(plane + 12 * (blocks / 8) + 2 * (b / 8))};
  }
  DEVICE float scale(const Part& p, int) { return half_of(p.all); }
  DEVICE float minimum(const Part&, int) { return 0.0f; }
  DEVICE int halves(const Part& p, int b) {
    const uint32_t low = p.low >> (b % 8 < 4 ? 0 : 4) & 0x0f0f, high = p.high >> (2 * (b % 8 / 2)) & 0x0303;
    return subtract_bytes(low | high << 4, 32);
  }
  DEVICE void store(uint8_t* plane, int b, int blocks, const uint8_t* block) {
    if (b % 8 != 0) return;
    for (int i = 0; i < 12; i += 4) {
      store_aligned(plane + 12 * (b / 8) + i, load_unaligned<uint32_t>(block + 96 + i));
    }
    store_aligned(plane + 12 * (blocks / 8) + b / 4, load_unaligned<uint16_t>(block + 108));
  }
};

// A format: where its blocks come from, and how its planes lie.
template <class Source_, class Quants_, class Scales_>
struct Packed {
  using Source = Source_;
  using Quants = Quants_;
  using Scales = Scales_;
  static constexpr int ZERO = Source::ZERO;
  static constexpr bool HAS_MINIMUM = Source::HAS_MINIMUM, HAS_HALF_SCALES = Source::HAS_HALF_SCALES;
  static constexpr bool USES_SUMS = ZERO != 0 || HAS_MINIMUM;
  // Four elements as a product takes them: signed bytes, ZERO too large.
  DEVICE int32_t word(const typename Quants::Part& p, int w) {
    return static_cast<int32_t>(Source::factors(Quants::word(p, w)));
  }
};
using PackedQ4_0 = Packed<BlockQ4_0, FourBits, HalfScale>;
using PackedQ4_1 = Packed<BlockQ4_1, FourBits, HalfScaleAndMinimum>;
using PackedQ5_0 = Packed<BlockQ5_0, TwoPlanes<FourBits, OneBit>, HalfScale>;
using PackedQ5_1 = Packed<BlockQ5_1, TwoPlanes<FourBits, OneBit>, HalfScaleAndMinimum>;
using PackedQ8_0 = Packed<BlockQ8_0, EightBits, HalfScale>;
using PackedQ2_K = Packed<BlockQ2_K, TwoBits, HalvesNibbles>;
using PackedQ3_K = Packed<BlockQ3_K, TwoPlanes<TwoBits, OneBit>, HalvesSixBits>;
using PackedQ4_K = Packed<BlockQ4_K, FourBits, SuperScales>;
using PackedQ5_K = Packed<BlockQ5_K, TwoPlanes<FourBits, OneBit>, SuperScales>;
using PackedQ6_K = Packed<BlockQ6_K, TwoPlanes<FourBits, TwoBits>, HalvesBytes>;
using PackedIQ4_NL = Packed<BlockIQ4_NL, FourBits, HalfScale>;
using PackedIQ4_XS = Packed<BlockIQ4_XS, FourBits, SuperLevels>;
using PackedMXFP4 = Packed<BlockMXFP4, FourBits, ByteExponent>;

template <class F>
DEVICE size_t packed_row_bytes(int blocks) {
  return static_cast<size_t>(F::Quants::bytes(blocks) + F::Scales::bytes(blocks) + 15) / 16 * 16;
}

// Data that a lane holds of one block of weights, and of one block of quantized activations.
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
//
// where halves have their own whole-number scales and minimums, these are factors of the halves' sums.
template <class F>
DEVICE float add_block(float sum, const WeightPart<F>& w, const InputPart& x, int b) {
  int low = 0, high = 0;
  UNROLL
  for (int i = 0; i < 4; i++) {
    low = dot4(F::word(w.quants, i), static_cast<int>(x.low.w[i]), low);
    high = dot4(F::word(w.quants, i + 4), static_cast<int>(x.high.w[i]), high);
  }
  int products, all_quants = x.sum_low + x.sum_high;
  if constexpr (F::HAS_HALF_SCALES) {
    const int halves = F::Scales::halves(w.scales, b);
    products =
        (low - F::ZERO * x.sum_low) * half_scale(halves, 0) + (high - F::ZERO * x.sum_high) * half_scale(halves, 1);
    all_quants = x.sum_low * half_minimum(halves, 0) + x.sum_high * half_minimum(halves, 1);
  } else {
    products = low + high - F::ZERO * all_quants;
  }
  sum = multiply_add(static_cast<float>(products), F::Scales::scale(w.scales, b) * x.scale, sum);
  if (F::HAS_MINIMUM) {
    const float sums = x.scale * static_cast<float>(all_quants);
    sum = multiply_add(-F::Scales::minimum(w.scales, b), sums, sum);
  }
  return sum;
}

}  // namespace forge
