// The block formats on the host, eight blocks of 32 elements at a time (one super-block of a K format). One struct a
// format:
//
//   BITS, ZERO              quants are unsigned, below 2^BITS, and ZERO too large
//   quants(p, b)            32 quants of block b
//   scales(p), minimums(p)  f32, one a block
//   half_scales(p), half_minimums(p)
//                           where halves have their own: sixteen int8, which scales and minimums are the factors of
//
// p is the first byte of the eight blocks. All of it is 256 bits wide: on the processors at hand a 512-bit operation
// takes two turns of the same units, and one source serves both levels.
#pragma once

#include "grid_blocks.h"

namespace forge {

using Bytes = __m256i;
using Ints = __m256i;
using Floats = __m256;

template <class F>
struct HostBlocks;

DEVICE Bytes load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
DEVICE Bytes low_nibbles(Bytes v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }

// Eight 16-bit floats that lie `stride` bytes apart. Whole-number code puts them together: it has idle units, and a
// vector load of what was just stored in parts would wait.
template <int STRIDE>
DEVICE Floats gather_halves(const uint8_t* p) {
  uint64_t words[2];
  for (int w = 0; w < 2; w++, p += 4 * STRIDE) {
    words[w] = load_unaligned<uint16_t>(p) | static_cast<uint64_t>(load_unaligned<uint16_t>(p + STRIDE)) << 16 |
               static_cast<uint64_t>(load_unaligned<uint16_t>(p + 2 * STRIDE)) << 32 |
               static_cast<uint64_t>(load_unaligned<uint16_t>(p + 3 * STRIDE)) << 48;
  }
  return _mm256_cvtph_ps(_mm_set_epi64x(static_cast<int64_t>(words[1]), static_cast<int64_t>(words[0])));
}
DEVICE Floats negate(Floats v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }

// Sixteen bytes' low nibbles, then their high ones.
DEVICE Bytes half_split(const uint8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return low_nibbles(_mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1));
}
// 16 in each byte whose bit of `bits` is set.
DEVICE Bytes fifth_bits(uint32_t bits) {
  const Bytes spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int>(bits)),
      _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0x0000000000000000));
  const Bytes bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit), _mm256_set1_epi8(16));
}

template <>
struct HostBlocks<BlockQ8_0> {
  static constexpr int BITS = 8, ZERO = 128;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    return _mm256_xor_si256(load_bytes(p + 34 * b + 2), _mm256_set1_epi8(static_cast<char>(0x80)));
  }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<34>(p); }
};

template <>
struct HostBlocks<BlockQ4_0> {
  static constexpr int BITS = 4, ZERO = 8;
  DEVICE Bytes quants(const uint8_t* p, int b) { return half_split(p + 18 * b + 2); }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<18>(p); }
};

template <>
struct HostBlocks<BlockQ4_1> {
  static constexpr int BITS = 4, ZERO = 0;
  DEVICE Bytes quants(const uint8_t* p, int b) { return half_split(p + 20 * b + 4); }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<20>(p); }
  DEVICE Floats minimums(const uint8_t* p) { return negate(gather_halves<20>(p + 2)); }
};

template <>
struct HostBlocks<BlockQ5_0> {
  static constexpr int BITS = 5, ZERO = 16;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    return _mm256_or_si256(half_split(p + 22 * b + 6), fifth_bits(load_unaligned<uint32_t>(p + 22 * b + 2)));
  }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<22>(p); }
};

template <>
struct HostBlocks<BlockQ5_1> {
  static constexpr int BITS = 5, ZERO = 0;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    return _mm256_or_si256(half_split(p + 24 * b + 8), fifth_bits(load_unaligned<uint32_t>(p + 24 * b + 4)));
  }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<24>(p); }
  DEVICE Floats minimums(const uint8_t* p) { return negate(gather_halves<24>(p + 2)); }
};

// Eight unsigned bytes as f32, times a factor.
DEVICE Floats scaled_bytes(uint64_t bytes, float factor) {
  const Ints wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(factor));
}

template <>
struct HostBlocks<BlockQ4_K> {
  static constexpr int BITS = 4, ZERO = 0;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    const Bytes v = load_bytes(p + 16 + b / 2 * 32);
    return low_nibbles(b % 2 == 0 ? v : _mm256_srli_epi16(v, 4));
  }
  // All eight 6-bit numbers at once: see packed_scale and packed_minimum.
  DEVICE Floats scales(const uint8_t* p) {
    const uint32_t first = load_unaligned<uint32_t>(p + 4), last = load_unaligned<uint32_t>(p + 12);
    const uint64_t high = (last & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u);
    return scaled_bytes((first & 0x3f3f3f3fu) | high << 32, load_half(p));
  }
  DEVICE Floats minimums(const uint8_t* p) {
    const uint32_t first = load_unaligned<uint32_t>(p + 8), last = load_unaligned<uint32_t>(p + 12);
    const uint64_t high = (last >> 4 & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u);
    return scaled_bytes((first & 0x3f3f3f3fu) | high << 32, load_half(p + 2));
  }
};

template <>
struct HostBlocks<BlockQ5_K> {
  static constexpr int BITS = 5, ZERO = 0;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    const Bytes v = load_bytes(p + 48 + b / 2 * 32), high = load_bytes(p + 16);
    const Bytes fifth = b < 4 ? _mm256_slli_epi16(high, 4 - b) : _mm256_srli_epi16(high, b - 4);
    return _mm256_or_si256(low_nibbles(b % 2 == 0 ? v : _mm256_srli_epi16(v, 4)),
                           _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
  }
  DEVICE Floats scales(const uint8_t* p) { return HostBlocks<BlockQ4_K>::scales(p); }
  DEVICE Floats minimums(const uint8_t* p) { return HostBlocks<BlockQ4_K>::minimums(p); }
};

template <>
struct HostBlocks<BlockQ6_K> {
  static constexpr int BITS = 6, ZERO = 32;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    const int half = b / 4, quarter = b % 4;
    const Bytes low = load_bytes(p + 64 * half + quarter % 2 * 32), high = load_bytes(p + 128 + 32 * half);
    const Bytes top = quarter == 0   ? _mm256_slli_epi16(high, 4)
                      : quarter == 1 ? _mm256_slli_epi16(high, 2)
                      : quarter == 2 ? high
                                     : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(low_nibbles(quarter < 2 ? low : _mm256_srli_epi16(low, 4)),
                           _mm256_and_si256(top, _mm256_set1_epi8(0x30)));
  }
  DEVICE Floats scales(const uint8_t* p) { return _mm256_set1_ps(load_half(p + 208)); }
  DEVICE __m128i half_scales(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192)); }
};

// Block b's two bits of each element, of 64 bytes that hold those of eight blocks.
DEVICE Bytes pairs_of_block(const uint8_t* p, int b) {
  const Bytes v = load_bytes(p + b / 4 * 32);
  return _mm256_and_si256(_mm256_srli_epi16(v, b % 4 * 2), _mm256_set1_epi8(3));
}
DEVICE __m128i low_nibbles(__m128i v) { return _mm_and_si128(v, _mm_set1_epi8(15)); }

template <>
struct HostBlocks<BlockQ2_K> {
  static constexpr int BITS = 2, ZERO = 0;
  DEVICE Bytes quants(const uint8_t* p, int b) { return pairs_of_block(p + 16, b); }
  DEVICE Floats scales(const uint8_t* p) { return _mm256_set1_ps(load_half(p + 80)); }
  DEVICE Floats minimums(const uint8_t* p) { return _mm256_set1_ps(load_half(p + 82)); }
  DEVICE __m128i half_scales(const uint8_t* p) {
    return low_nibbles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  DEVICE __m128i half_minimums(const uint8_t* p) {
    return low_nibbles(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), 4));
  }
};

template <>
struct HostBlocks<BlockQ3_K> {
  static constexpr int BITS = 3, ZERO = 4;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    const Bytes high = load_bytes(p), third = b < 2 ? _mm256_slli_epi16(high, 2 - b) : _mm256_srli_epi16(high, b - 2);
    return _mm256_or_si256(pairs_of_block(p + 32, b), _mm256_and_si256(third, _mm256_set1_epi8(4)));
  }
  DEVICE Floats scales(const uint8_t* p) { return _mm256_set1_ps(load_half(p + 108)); }
  // All sixteen 6-bit numbers at once: see BlockQ3_K.
  DEVICE __m128i half_scales(const uint8_t* p) {
    const __m128i eight = _mm_cvtsi64_si128(load_unaligned<int64_t>(p + 96));
    const __m128i low = low_nibbles(_mm_unpacklo_epi64(eight, _mm_srli_epi16(eight, 4)));
    const __m128i tops = _mm_srlv_epi32(_mm_set1_epi32(load_unaligned<int32_t>(p + 104)), _mm_setr_epi32(0, 2, 4, 6));
    const __m128i high = _mm_slli_epi16(_mm_and_si128(tops, _mm_set1_epi8(3)), 4);
    return _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32));
  }
};

// The level that each byte names, ZERO too large.
template <int ZERO>
DEVICE Bytes levels_of(const int8_t (&levels)[16], Bytes places) {
  const __m128i signed_levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels));
  const __m128i unsigned_levels = _mm_add_epi8(signed_levels, _mm_set1_epi8(static_cast<char>(ZERO)));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(unsigned_levels), places);
}

template <>
struct HostBlocks<BlockIQ4_NL> {
  static constexpr int BITS = 8, ZERO = 128;
  DEVICE Bytes quants(const uint8_t* p, int b) { return levels_of<ZERO>(LEVELS, half_split(p + 18 * b + 2)); }
  DEVICE Floats scales(const uint8_t* p) { return gather_halves<18>(p); }
};

template <>
struct HostBlocks<BlockIQ4_XS> {
  static constexpr int BITS = 8, ZERO = 128;
  DEVICE Bytes quants(const uint8_t* p, int b) { return levels_of<ZERO>(LEVELS, half_split(p + 8 + 16 * b)); }
  DEVICE Floats scales(const uint8_t* p) {
    const Ints nibbles = _mm256_srlv_epi32(_mm256_set1_epi32(load_unaligned<int32_t>(p + 4)),
                                           _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const Ints tops = _mm256_srlv_epi32(_mm256_set1_epi32(load_unaligned<uint16_t>(p + 2)),
                                        _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const Ints low = _mm256_and_si256(nibbles, _mm256_set1_epi32(15));
    const Ints high = _mm256_slli_epi32(_mm256_and_si256(tops, _mm256_set1_epi32(3)), 4);
    const Ints scales = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(scales), _mm256_set1_ps(load_half(p)));
  }
};

template <>
struct HostBlocks<BlockMXFP4> {
  static constexpr int BITS = 5, ZERO = 12;
  DEVICE Bytes quants(const uint8_t* p, int b) { return levels_of<ZERO>(LEVELS_MXFP4, half_split(p + 17 * b + 1)); }
  // See half_exponent.
  DEVICE Floats scales(const uint8_t* p) {
    const Ints exponents = _mm256_setr_epi32(p[0], p[17], p[34], p[51], p[68], p[85], p[102], p[119]);
    const Ints normal = _mm256_slli_epi32(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)), 23);
    const Ints subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), exponents);
    const Ints is_normal = _mm256_cmpgt_epi32(exponents, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
  }
};

// Formats of grid_blocks.h: codes and flags together are places of levels.
template <class F, int BITS_, int ZERO_>
struct HostGrid {
  static constexpr int BITS = BITS_, ZERO = ZERO_;
  DEVICE Bytes quants(const uint8_t* p, int b) {
    constexpr uint64_t CODES = 0x0101010101010101u * ((1 << F::CODE_BITS) - 1);
    uint64_t codes[4];
    uint32_t flags = 0;
#pragma GCC unroll 4
    for (int l = 0; l < 4; l++) {
      codes[l] = _pdep_u64(F::codes(p, b, l), CODES);
      flags |= F::flags(p, b, l) << (8 * l);
    }
    const Bytes eights = _mm256_srli_epi16(fifth_bits(flags), 1);
    return levels_of<ZERO>(F::LEVELS, _mm256_or_si256(load_bytes(codes), eights));
  }
  DEVICE Floats scales(const uint8_t* p) { return _mm256_set1_ps(F::factor(p)); }
  DEVICE __m128i half_scales(const uint8_t* p) {
    alignas(16) int8_t scales[16];
    for (int h = 0; h < 16; h++) scales[h] = static_cast<int8_t>(F::whole_scale(p, h));
    return _mm_load_si128(reinterpret_cast<const __m128i*>(scales));
  }
};
template <>
struct HostBlocks<BlockIQ2_XXS> : HostGrid<BlockIQ2_XXS, 7, 43> {};
template <>
struct HostBlocks<BlockIQ2_XS> : HostGrid<BlockIQ2_XS, 7, 43> {};
template <>
struct HostBlocks<BlockIQ2_S> : HostGrid<BlockIQ2_S, 7, 43> {};
template <>
struct HostBlocks<BlockIQ3_XXS> : HostGrid<BlockIQ3_XXS, 7, 62> {};
template <>
struct HostBlocks<BlockIQ3_S> : HostGrid<BlockIQ3_S, 5, 15> {};
template <>
struct HostBlocks<BlockIQ1_S> : HostGrid<BlockIQ1_S, 5, 9> {};
template <>
struct HostBlocks<BlockIQ1_M> : HostGrid<BlockIQ1_M, 5, 9> {};

}  // namespace forge
