// Rows of quantized weights times quantized activations on the host.
//
// One arithmetic for any number of tokens. Elements are taken in groups of eight blocks of 32; block b of each group
// adds to partial sum b, first its products, then its minimum:
//
//   sum[b] = fma(float(sum of quant * quant), weight scale * activation scale, sum[b])
//   sum[b] = fma(-weight minimum, activation scale * float(sum of quants), sum[b])
//
// where halves have their own whole-number scales and minimums, these are factors of the halves' sums,
// and the eight partial sums are added as horizontal_sum does. The sums of quants are whole numbers below 2^24, exact
// in any order, so dot_quant (one row, one token: partial sums in the lanes of a vector) and host_tile.h (many of both:
// rows in the lanes) give the same bits, at every instruction set level.
//
// In the order of a GPU's wave (packed_dot.h) there are as many partial sums as the wave has lanes, block b adds to sum
// b % lanes, those of lanes l and l + 32 are added first, and then all in order: the same bits as on such a GPU.
#pragma once

#include "host_blocks.h"
#include "q8.h"

namespace forge {

constexpr int GROUP_BLOCKS = 8, GROUP_ELEMENTS = GROUP_BLOCKS * Q8_BLOCK;
// Prefetch distance of weights: 4 KB decodes Q4_K 3 to 9 % faster than 1 KB, Q8_0 equally fast.
constexpr int PREFETCH_BYTES = 4096;

// A group of the weight's row: F::BYTES * BLOCKS_A_GROUP bytes.
template <class F>
constexpr int GROUP_BYTES = F::BYTES * GROUP_ELEMENTS / F::ELEMENTS;

// A row's last, shorter group, with zeros up to a whole one: they add nothing, and nothing behind the row is read.
template <class F>
struct PaddedWeights {
  uint8_t bytes[GROUP_BYTES<F>] = {};
  explicit PaddedWeights(const uint8_t* p, int blocks) {
    std::memcpy(bytes, p, static_cast<size_t>(blocks) * F::BYTES);
  }
};
struct PaddedInput {
  alignas(32) int8_t quants[GROUP_ELEMENTS] = {};
  alignas(32) float scales[GROUP_BLOCKS] = {};
  alignas(32) int16_t sums[2 * GROUP_BLOCKS] = {};
  // All bits of the blocks that there are.
  alignas(32) int32_t present[GROUP_BLOCKS] = {};
  PaddedInput() = default;
  PaddedInput(const Q8Input& x, int blocks) {
    std::memcpy(quants, x.quants, static_cast<size_t>(blocks) * Q8_BLOCK);
    std::memcpy(scales, x.scales, static_cast<size_t>(blocks) * sizeof(float));
    std::memcpy(sums, x.sums, static_cast<size_t>(blocks) * 2 * sizeof(int16_t));
    std::memset(present, 0xff, static_cast<size_t>(blocks) * sizeof(int32_t));
  }
  Q8Input input() const { return {quants, scales, sums}; }
  // Sums of the blocks that there are; the others as before.
  Floats kept(Floats added, Floats before) const {
    return _mm256_blendv_ps(before, added, _mm256_castsi256_ps(load_bytes(present)));
  }
};
DEVICE Q8Input advance(const Q8Input& x, int groups) {
  return {x.quants + groups * GROUP_ELEMENTS, x.scales + groups * GROUP_BLOCKS, x.sums + groups * 2 * GROUP_BLOCKS};
}
// The last group of a row of so many elements, where it is a shorter one.
DEVICE PaddedInput tail_of(const Q8Input& x, int in) {
  return PaddedInput(advance(x, in / GROUP_ELEMENTS), in % GROUP_ELEMENTS / Q8_BLOCK);
}

// Adds, in each 32-bit lane, the products of four unsigned bytes below 2^BITS and four signed ones.
template <int BITS>
DEVICE __m256i dot_bytes(__m256i sum, __m256i weight, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(sum, weight, x);
#else
  // The 16-bit sums of two products saturate when the weight has eight bits: its top bit is taken by itself.
  const __m256i ones = _mm256_set1_epi16(1);
  if (BITS < 8) return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(weight, x), ones));
  const __m256i top = _mm256_and_si256(weight, _mm256_set1_epi8(static_cast<char>(0x80)));
  const __m256i rest = _mm256_and_si256(weight, _mm256_set1_epi8(0x7f));
  return _mm256_add_epi32(_mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(top, x), ones)),
                          _mm256_madd_epi16(_mm256_maddubs_epi16(rest, x), ones));
#endif
}

// The sums of the low and of the high four lanes of eight vectors.
struct HalfSums {
  Ints low, high;
};
DEVICE Ints add_pairs(Ints a, Ints b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
DEVICE Ints add_quads(Ints a, Ints b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
DEVICE HalfSums half_sums(const Ints (&v)[GROUP_BLOCKS]) {
  const Ints first = add_quads(add_pairs(v[0], v[1]), add_pairs(v[2], v[3]));
  const Ints last = add_quads(add_pairs(v[4], v[5]), add_pairs(v[6], v[7]));
  return {_mm256_permute2x128_si256(first, last, 0x20), _mm256_permute2x128_si256(first, last, 0x31)};
}

// The sum of quant * quant of each block of a group, its halves times their own scales where the format has such.
template <class F>
DEVICE Ints block_products(const uint8_t* p, const Q8Input& x) {
  using H = HostBlocks<F>;
  Ints products[GROUP_BLOCKS];
#pragma GCC unroll 8
  for (int b = 0; b < GROUP_BLOCKS; b++) {
    products[b] = dot_bytes<H::BITS>(_mm256_setzero_si256(), H::quants(p, b), load_bytes(x.quants + b * Q8_BLOCK));
  }
  const HalfSums sums = half_sums(products);
  const Ints x_sums = load_bytes(x.sums);
  if constexpr (F::HAS_HALF_SCALES) {
    const __m256i scales = _mm256_cvtepi8_epi16(H::half_scales(p));
    const Ints low = _mm256_srai_epi32(_mm256_slli_epi32(scales, 16), 16), high = _mm256_srai_epi32(scales, 16);
    const Ints all = _mm256_add_epi32(_mm256_mullo_epi32(sums.low, low), _mm256_mullo_epi32(sums.high, high));
    const Ints too_much = _mm256_mullo_epi32(_mm256_madd_epi16(scales, x_sums), _mm256_set1_epi32(H::ZERO));
    return H::ZERO == 0 ? all : _mm256_sub_epi32(all, too_much);
  } else {
    const Ints all = _mm256_add_epi32(sums.low, sums.high);
    return H::ZERO == 0 ? all : _mm256_sub_epi32(all, _mm256_madd_epi16(x_sums, _mm256_set1_epi16(H::ZERO)));
  }
}

// The activation's scale times its sum of quants, of each block; `factors` are of its halves' sums.
DEVICE Floats scaled_sums(const Q8Input& x, Ints factors = _mm256_set1_epi16(1)) {
  return _mm256_mul_ps(_mm256_loadu_ps(x.scales), _mm256_cvtepi32_ps(_mm256_madd_epi16(load_bytes(x.sums), factors)));
}

template <class F>
DEVICE Floats add_group(Floats sum, const uint8_t* p, const Q8Input& x) {
  const Floats scales = _mm256_mul_ps(HostBlocks<F>::scales(p), _mm256_loadu_ps(x.scales));
  sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(block_products<F>(p, x)), scales, sum);
  if constexpr (F::HAS_MINIMUM && F::HAS_HALF_SCALES) {
    const Ints factors = _mm256_cvtepi8_epi16(HostBlocks<F>::half_minimums(p));
    sum = _mm256_fnmadd_ps(HostBlocks<F>::minimums(p), scaled_sums(x, factors), sum);
  } else if constexpr (F::HAS_MINIMUM) {
    sum = _mm256_fnmadd_ps(HostBlocks<F>::minimums(p), scaled_sums(x), sum);
  }
  return sum;
}

DEVICE float sum_of_partials(Floats v) {
  __m128 r = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  r = _mm_add_ps(r, _mm_movehl_ps(r, r));
  return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
}

// Rows whose lanes are added side by side: each in order, which alone would wait for one addition after the other.
constexpr int LANE_ROWS = 8, LANES_IN_ORDER = 32;

// sums[r] = the sum of lanes[r], in order.
DEVICE void add_lanes(const float (&lanes)[LANE_ROWS][LANES_IN_ORDER], float (&sums)[LANE_ROWS]) {
  Floats sum = _mm256_setzero_ps();
  for (int first = 0; first < LANES_IN_ORDER; first += GROUP_BLOCKS) {
    Floats rows[LANE_ROWS], pairs[LANE_ROWS], quads[LANE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < LANE_ROWS; r++) rows[r] = _mm256_load_ps(lanes[r] + first);
#pragma GCC unroll 4
    for (int r = 0; r < LANE_ROWS; r += 2) {
      pairs[r] = _mm256_unpacklo_ps(rows[r], rows[r + 1]);
      pairs[r + 1] = _mm256_unpackhi_ps(rows[r], rows[r + 1]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < LANE_ROWS; r += 4) {
      quads[r] = _mm256_shuffle_ps(pairs[r], pairs[r + 2], 0x44);
      quads[r + 1] = _mm256_shuffle_ps(pairs[r], pairs[r + 2], 0xee);
      quads[r + 2] = _mm256_shuffle_ps(pairs[r + 1], pairs[r + 3], 0x44);
      quads[r + 3] = _mm256_shuffle_ps(pairs[r + 1], pairs[r + 3], 0xee);
    }
    // Lane `first` + l of all rows: the low halves have the first four, the high ones the others.
#pragma GCC unroll 8
    for (int l = 0; l < LANE_ROWS; l++) {
      const Floats lane = _mm256_permute2f128_ps(quads[l % 4], quads[l % 4 + 4], l < 4 ? 0x20 : 0x31);
      sum = first + l == 0 ? lane : _mm256_add_ps(sum, lane);
    }
  }
  _mm256_storeu_ps(sums, sum);
}

// Adds weight[k] * x[k] over `in` elements to partial sums, eight in a vector. `tail`: tail_of x; `is_followed`: rows
// lie behind this one, of which a whole group may be read.
template <class F, int VECTORS>
DEVICE void add_row(Floats (&sums)[VECTORS], const uint8_t* weight, const Q8Input& x, const PaddedInput& tail, int in,
                    bool is_followed) {
  for (int v = 0; v < VECTORS; v++) sums[v] = _mm256_setzero_ps();
  const int groups = in / GROUP_ELEMENTS;
  for (int first = 0; first < groups; first += VECTORS) {
    for (int v = 0; v < VECTORS; v++) {
      const int g = first + v;
      if (VECTORS > 1 && g >= groups) break;
      const uint8_t* p = weight + static_cast<size_t>(g) * GROUP_BYTES<F>;
#pragma GCC unroll 8
      for (int line = 0; line < GROUP_BYTES<F>; line += 64) __builtin_prefetch(p + PREFETCH_BYTES + line);
      sums[v] = add_group<F>(sums[v], p, advance(x, g));
    }
  }
  if (const int rest = in % GROUP_ELEMENTS / Q8_BLOCK; F::ELEMENTS == Q8_BLOCK && rest > 0) {
    const uint8_t* const p = weight + static_cast<size_t>(groups) * GROUP_BYTES<F>;
    Floats& sum = sums[groups % VECTORS];
    if (is_followed) {
      sum = tail.kept(add_group<F>(sum, p, tail.input()), sum);
    } else {
      const PaddedWeights<F> w(p, rest);
      sum = add_group<F>(sum, w.bytes, tail.input());
    }
  }
}

// y[row] = sum_k weight[row][k] * x[k] for rows first .. last - 1, in so many partial sums: 8, or the lanes of a wave.
template <class F, int PARTIALS>
DEVICE void dot_rows(const uint8_t* weight, size_t row_bytes, int in, const Q8Input& x, float* y, int first, int last) {
  const PaddedInput tail = tail_of(x, in);
  const auto add = [&](auto& sums, int row) {
    const bool is_followed = (last - 1 - row) * row_bytes >= GROUP_BYTES<F>;
    add_row<F>(sums, weight + row * row_bytes, x, tail, in, is_followed);
  };
  if constexpr (PARTIALS == GROUP_BLOCKS) {
    for (int row = first; row < last; row++) {
      Floats sums[1];
      add(sums, row);
      y[row] = sum_of_partials(sums[0]);
    }
  } else {
    constexpr int VECTORS = PARTIALS / GROUP_BLOCKS, IN_ORDER = LANES_IN_ORDER / GROUP_BLOCKS;
    for (int from = first; from < last; from += LANE_ROWS) {
      alignas(32) float lanes[LANE_ROWS][LANES_IN_ORDER] = {};
      const int count = min_of(LANE_ROWS, last - from);
      for (int r = 0; r < count; r++) {
        Floats sums[VECTORS];
        add(sums, from + r);
        for (int v = IN_ORDER; v < VECTORS; v++) sums[v - IN_ORDER] = _mm256_add_ps(sums[v - IN_ORDER], sums[v]);
        for (int v = 0; v < IN_ORDER; v++) _mm256_store_ps(lanes[r] + v * GROUP_BLOCKS, sums[v]);
      }
      float sums[LANE_ROWS];
      add_lanes(lanes, sums);
      std::memcpy(y + from, sums, sizeof(float) * count);
    }
  }
}

}  // namespace forge
