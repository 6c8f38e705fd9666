// The block formats of GGUF files: how each packs small whole numbers with their scales (llama.cpp's ggml-common.h and
// ggml-quants.c state them). One struct a format:
//
//   ELEMENTS, BYTES        of a block
//   HAS_MINIMUM            whether a minimum is subtracted
//   HAS_HALF_SCALES        whether scale and minimum are of sixteen elements, not of thirty-two
//   stored4(block, i)      elements i .. i + 3 as they are stored, a byte each, lowest first; i is a multiple of 4
//   scale(block, i)        f32, of the elements around i
//   minimum(block, i)      f32, of the elements around i
//
// Element i is scale * quant - minimum. Scale and minimum are exact in f32, and so is scale * quant. What is stored are
// quants (Numbers<0>), quants and ZERO more (Numbers<ZERO>), or places in a table of them (Levels).
#pragma once

#include "contract.h"
#include "device.h"
#include "levels.h"

namespace forge {

// Blocks have no alignment to speak of.
template <class T>
DEVICE T load_unaligned(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return value;
}
DEVICE float load_half(const uint8_t* p) { return to_float(load_unaligned<half_t>(p)); }

// Subtracts `zero` (at most 128) from each of four unsigned bytes; byte by byte, because no byte borrows from the next.
DEVICE int32_t subtract_bytes(uint32_t bytes, uint32_t zero) {
  return static_cast<int32_t>(((bytes | 0x80808080u) - zero * 0x01010101u) ^ 0x80808080u);
}
// The lowest four bits of `bits`, each at bit 4 of its own byte.
DEVICE uint32_t spread_fifth_bits(uint32_t bits) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4; }

// Signed bytes that a product takes for stored quants, which are smaller by ZERO: the sum is corrected later.
template <int ZERO_>
struct Numbers {
  static constexpr int ZERO = ZERO_;
  DEVICE uint32_t factors(uint32_t stored) { return stored; }
};
template <const int8_t (&LEVELS_)[16]>
struct Levels {
  static constexpr int ZERO = 0;
  DEVICE uint32_t factors(uint32_t stored) { return levels_at<LEVELS_>(stored); }
};

struct BlockQ8_0 : FormatQ8_0, Numbers<0> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return load_unaligned<uint32_t>(b + 2 + i); }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// The low sixteen elements are the low nibbles of sixteen bytes, the high sixteen the high ones.
DEVICE uint32_t half_split_nibbles(const uint8_t* quants, int i) {
  return load_unaligned<uint32_t>(quants + i % 16) >> (i < 16 ? 0 : 4) & 0x0f0f0f0fu;
}

struct BlockQ4_0 : FormatQ4_0, Numbers<8> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return half_split_nibbles(b + 2, i); }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

struct BlockQ4_1 : FormatQ4_1, Numbers<0> {
  static constexpr bool HAS_MINIMUM = true, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return half_split_nibbles(b + 4, i); }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t* b, int) { return -load_half(b + 2); }
};

struct BlockQ5_0 : FormatQ5_0, Numbers<16> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    return half_split_nibbles(b + 6, i) | spread_fifth_bits(load_unaligned<uint32_t>(b + 2) >> i);
  }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

struct BlockQ5_1 : FormatQ5_1, Numbers<0> {
  static constexpr bool HAS_MINIMUM = true, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    return half_split_nibbles(b + 8, i) | spread_fifth_bits(load_unaligned<uint32_t>(b + 4) >> i);
  }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t* b, int) { return -load_half(b + 2); }
};

// Q4_K and Q5_K: eight sub-blocks of 32 with a 6-bit scale and a 6-bit minimum each, packed in 12 bytes: the first four
// of each in the low six bits of bytes 0-3 and 4-7, the last four in the nibbles of bytes 8-11 under those bytes' top
// two bits.
DEVICE int packed_scale(const uint8_t* scales, int sub) {
  return sub < 4 ? scales[sub] & 63 : (scales[sub + 4] & 15) | scales[sub - 4] >> 6 << 4;
}
DEVICE int packed_minimum(const uint8_t* scales, int sub) {
  return sub < 4 ? scales[sub + 4] & 63 : scales[sub + 4] >> 4 | scales[sub] >> 6 << 4;
}
// Sub-blocks 2c and 2c + 1 are the low and the high nibbles of bytes 32c .. 32c + 31.
DEVICE uint32_t sub_block_nibbles(const uint8_t* quants, int i) {
  return load_unaligned<uint32_t>(quants + i / 64 * 32 + i % 32) >> (i % 64 < 32 ? 0 : 4) & 0x0f0f0f0fu;
}

struct BlockQ4_K : FormatQ4_K, Numbers<0> {
  static constexpr bool HAS_MINIMUM = true, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return sub_block_nibbles(b + 16, i); }
  DEVICE float scale(const uint8_t* b, int i) { return load_half(b) * static_cast<float>(packed_scale(b + 4, i / 32)); }
  DEVICE float minimum(const uint8_t* b, int i) {
    return load_half(b + 2) * static_cast<float>(packed_minimum(b + 4, i / 32));
  }
};

// Bit s of qh[j] is the fifth bit of element j of sub-block s.
struct BlockQ5_K : FormatQ5_K, Numbers<0> {
  static constexpr bool HAS_MINIMUM = true, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    const uint32_t fifth = load_unaligned<uint32_t>(b + 16 + i % 32) >> (i / 32) & 0x01010101u;
    return sub_block_nibbles(b + 48, i) | fifth << 4;
  }
  DEVICE float scale(const uint8_t* b, int i) { return BlockQ4_K::scale(b, i); }
  DEVICE float minimum(const uint8_t* b, int i) { return BlockQ4_K::minimum(b, i); }
};

// Two halves of 128 elements. Quarter q of a half: low four bits in the nibbles of 64 bytes (quarters 0 and 1 the low
// ones), top two bits at bit 2q of 32 bytes. Sixteen elements share a signed 8-bit scale.
struct BlockQ6_K : FormatQ6_K, Numbers<32> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = true;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    const int half = i / 128, quarter = i % 128 / 32;
    const uint32_t low = load_unaligned<uint32_t>(b + 64 * half + i % 64) >> (quarter < 2 ? 0 : 4);
    const uint32_t high = load_unaligned<uint32_t>(b + 128 + 32 * half + i % 32) >> (2 * quarter);
    return (low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
  }
  DEVICE float scale(const uint8_t* b, int i) {
    return load_half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + i / 16]));
  }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// Two halves of 128 elements: quarter q of a half is bit 2q and the next of 32 bytes.
DEVICE uint32_t quarter_pairs(const uint8_t* quants, int i) {
  return load_unaligned<uint32_t>(quants + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 0x03030303u;
}

// Sixteen elements share a byte: a 4-bit scale, and a 4-bit minimum above it.
struct BlockQ2_K : FormatQ2_K, Numbers<0> {
  static constexpr bool HAS_MINIMUM = true, HAS_HALF_SCALES = true;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return quarter_pairs(b + 16, i); }
  DEVICE float scale(const uint8_t* b, int i) { return load_half(b + 80) * static_cast<float>(b[i / 16] & 15); }
  DEVICE float minimum(const uint8_t* b, int i) { return load_half(b + 82) * static_cast<float>(b[i / 16] >> 4); }
};

// Bit s of byte j is the third bit of element j of the s-th 32. Sixteen elements share a 6-bit scale, 32 too large: its
// low four bits are a nibble of 8 bytes (the first eight scales have the low ones), its top two bits 2 (s / 4) and the
// next of byte s % 4 of the four bytes behind those.
struct BlockQ3_K : FormatQ3_K, Numbers<4> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = true;
  DEVICE uint32_t stored4(const uint8_t* b, int i) {
    const uint32_t third = load_unaligned<uint32_t>(b + i % 32) >> (i / 32) & 0x01010101u;
    return quarter_pairs(b + 32, i) | third << 2;
  }
  DEVICE float scale(const uint8_t* b, int i) {
    const int s = i / 16;
    const int low = b[96 + s % 8] >> (s < 8 ? 0 : 4) & 15, high = b[104 + s % 4] >> (2 * (s / 4)) & 3;
    return load_half(b + 108) * static_cast<float>((low | high << 4) - 32);
  }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

struct BlockIQ4_NL : FormatIQ4_NL, Levels<LEVELS> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return half_split_nibbles(b + 2, i); }
  DEVICE float scale(const uint8_t* b, int) { return load_half(b); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// Eight sub-blocks like IQ4_NL's with a 6-bit scale each, 32 too large: the top two bits in two bytes, the low four in
// the nibbles of four.
struct BlockIQ4_XS : FormatIQ4_XS, Levels<LEVELS> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return half_split_nibbles(b + 8 + i / 32 * 16, i % 32); }
  DEVICE float scale(const uint8_t* b, int i) {
    const int s = i / 32, low = b[4 + s / 2] >> (s % 2 * 4) & 15, high = load_unaligned<uint16_t>(b + 2) >> (2 * s) & 3;
    return load_half(b) * static_cast<float>((low | high << 4) - 32);
  }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// 2^(exponent - 128): half of what E8M0 says, as MXFP4's levels are doubled. The lowest two are subnormal.
DEVICE float half_exponent(uint32_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

struct BlockMXFP4 : FormatMXFP4, Levels<LEVELS_MXFP4> {
  static constexpr bool HAS_MINIMUM = false, HAS_HALF_SCALES = false;
  DEVICE uint32_t stored4(const uint8_t* b, int i) { return half_split_nibbles(b + 1, i); }
  DEVICE float scale(const uint8_t* b, int) { return half_exponent(b[0]); }
  DEVICE float minimum(const uint8_t*, int) { return 0.0f; }
};

// Elements i .. i + 3 as four signed bytes.
template <class F>
DEVICE int32_t quants4(const uint8_t* block, int i) {
  const uint32_t factors = F::factors(F::stored4(block, i));
  return F::ZERO == 0 ? static_cast<int32_t>(factors) : subtract_bytes(factors, F::ZERO);
}

// Element i of a row of blocks.
template <class F>
DEVICE float dequantize(const uint8_t* row, int i) {
  const uint8_t* block = row + static_cast<size_t>(i / F::ELEMENTS) * F::BYTES;
  const int e = i % F::ELEMENTS;
  const int quant = static_cast<int8_t>(quants4<F>(block, e & ~3) >> (8 * (e & 3)));
  return F::scale(block, e) * static_cast<float>(quant) - F::minimum(block, e);
}

}  // namespace forge
