// One file because it is one loop over tiles, whose parts share the layout of blocks and sums.
//
// Many rows of quantized weights times many tokens on the host: dot_quant's arithmetic (host_quant.h) with weight rows
// in the lanes of a vector. A tile's weights are unpacked once for all tokens; a micro-kernel then keeps two vectors of
// rows times several tokens in registers.
#pragma once

#include "host_quant.h"

namespace forge::tile {

#if defined(__AVX512F__)
constexpr int LANES = 16, TOKENS_AT_ONCE = 8;
using TileInts = __m512i;
using TileFloats = __m512;
DEVICE TileInts load(const int32_t* p) { return _mm512_load_si512(p); }
DEVICE TileFloats load(const float* p) { return _mm512_load_ps(p); }
DEVICE void store(float* p, TileFloats v) { _mm512_store_ps(p, v); }
DEVICE TileInts broadcast(int32_t i) { return _mm512_set1_epi32(i); }
DEVICE TileFloats broadcast(float f) { return _mm512_set1_ps(f); }
DEVICE TileFloats to_floats(TileInts v) { return _mm512_cvtepi32_ps(v); }
DEVICE TileFloats add(TileFloats a, TileFloats b) { return _mm512_add_ps(a, b); }
DEVICE TileFloats multiply(TileFloats a, TileFloats b) { return _mm512_mul_ps(a, b); }
DEVICE TileFloats multiply_add(TileFloats a, TileFloats b, TileFloats c) { return _mm512_fmadd_ps(a, b, c); }
DEVICE TileFloats subtract_product(TileFloats a, TileFloats b, TileFloats c) { return _mm512_fnmadd_ps(a, b, c); }
DEVICE void store_first(float* p, TileFloats v, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(n >= LANES ? 0xffff : (1 << n) - 1), v);
}
// As dot_bytes of host_quant.h.
template <int BITS>
DEVICE TileInts dot_bytes(TileInts sum, TileInts weight, TileInts x) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sum, weight, x);
#else
  const __m512i ones = _mm512_set1_epi16(1);
  if (BITS < 8) return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(weight, x), ones));
  const __m512i top = _mm512_and_si512(weight, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i rest = _mm512_and_si512(weight, _mm512_set1_epi8(0x7f));
  return _mm512_add_epi32(_mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(top, x), ones)),
                          _mm512_madd_epi16(_mm512_maddubs_epi16(rest, x), ones));
#endif
}
#else
constexpr int LANES = 8, TOKENS_AT_ONCE = 4;
using TileInts = __m256i;
using TileFloats = __m256;
DEVICE TileInts load(const int32_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
DEVICE TileFloats load(const float* p) { return _mm256_load_ps(p); }
DEVICE void store(float* p, TileFloats v) { _mm256_store_ps(p, v); }
DEVICE TileInts broadcast(int32_t i) { return _mm256_set1_epi32(i); }
DEVICE TileFloats broadcast(float f) { return _mm256_set1_ps(f); }
DEVICE TileFloats to_floats(TileInts v) { return _mm256_cvtepi32_ps(v); }
DEVICE TileFloats add(TileFloats a, TileFloats b) { return _mm256_add_ps(a, b); }
DEVICE TileFloats multiply(TileFloats a, TileFloats b) { return _mm256_mul_ps(a, b); }
DEVICE TileFloats multiply_add(TileFloats a, TileFloats b, TileFloats c) { return _mm256_fmadd_ps(a, b, c); }
DEVICE TileFloats subtract_product(TileFloats a, TileFloats b, TileFloats c) { return _mm256_fnmadd_ps(a, b, c); }
DEVICE void store_first(float* p, TileFloats v, int n) {
  alignas(32) float all[LANES];
  _mm256_store_ps(all, v);
  std::memcpy(p, all, static_cast<size_t>(n < LANES ? n : LANES) * sizeof(float));
}
using forge::dot_bytes;
#endif

// Vectors of rows a micro-kernel has, and the rows of a tile.
constexpr int VECTORS = 2, ROWS = VECTORS * LANES;
// Tokens and groups of K that one unpacked tile serves: it then stays in the second-level cache.
constexpr int MOST_TOKENS = 128, MOST_GROUPS = 8;
// Bytes of four elements, as one lane holds them, and how many a block has.
constexpr int QUAD = 4, QUADS = Q8_BLOCK / QUAD;

// Traits of a format's unpacked blocks. Formats with equal traits share the code that multiplies them, which then is
// compiled once.
template <bool EIGHT_BITS, bool ZERO, bool MINIMUM, bool HALF_SCALES>
struct Kind {
  static constexpr int BITS = EIGHT_BITS ? 8 : 7;
  // True if quants are too large by a number that is not 0.
  static constexpr bool HAS_ZERO = ZERO;
  static constexpr bool HAS_MINIMUM = MINIMUM, HAS_HALF_SCALES = HALF_SCALES;
};
template <class F>
using KindOf = Kind<HostBlocks<F>::BITS == 8, HostBlocks<F>::ZERO != 0, F::HAS_MINIMUM, F::HAS_HALF_SCALES>;

// One block of each row, unpacked.
template <class K>
struct Block {
  alignas(64) int32_t quants[QUADS][ROWS];
  alignas(64) float scales[ROWS];
  alignas(64) float minimums[K::HAS_MINIMUM ? ROWS : 1];
  alignas(64) float half_scales[2][K::HAS_HALF_SCALES ? ROWS : 1];
  alignas(64) float half_minimums[2][K::HAS_MINIMUM && K::HAS_HALF_SCALES ? ROWS : 1];
};
template <class K>
using Panel = Block<K>[MOST_GROUPS * GROUP_BLOCKS];

// The partial sums of each token and row, [tokens, partials, ROWS]: tokens times partials is at most this.
constexpr int MOST_SUMS = MOST_TOKENS * GROUP_BLOCKS;

// Element j of v[i] becomes element i of v[j].
DEVICE void transpose(Ints (&v)[8]) {
  Ints a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4) {
    b[h] = _mm256_unpacklo_epi64(a[h], a[h + 2]);
    b[h + 1] = _mm256_unpackhi_epi64(a[h], a[h + 2]);
    b[h + 2] = _mm256_unpacklo_epi64(a[h + 1], a[h + 3]);
    b[h + 3] = _mm256_unpackhi_epi64(a[h + 1], a[h + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

// Unpacks one group of eight rows into columns first .. first + 7 of eight blocks. rows[i] is the group's first byte.
// Loops that GCC would unroll stay loops: no slower, and a third of what this file takes to compile.
template <class F>
void unpack_rows(const uint8_t* const (&rows)[8], int first, Block<KindOf<F>>* blocks) {
  using H = HostBlocks<F>;
#pragma GCC unroll 1
  for (int i = 0; i < 8; i++) {
    alignas(32) float scales[GROUP_BLOCKS], minimums[GROUP_BLOCKS];
    alignas(16) int8_t half_scales[2 * GROUP_BLOCKS], half_minimums[2 * GROUP_BLOCKS];
    _mm256_store_ps(scales, H::scales(rows[i]));
    if constexpr (F::HAS_MINIMUM) _mm256_store_ps(minimums, H::minimums(rows[i]));
    if constexpr (F::HAS_HALF_SCALES) {
      _mm_store_si128(reinterpret_cast<__m128i*>(half_scales), H::half_scales(rows[i]));
      if constexpr (F::HAS_MINIMUM) {
        _mm_store_si128(reinterpret_cast<__m128i*>(half_minimums), H::half_minimums(rows[i]));
      }
    }
    for (int b = 0; b < GROUP_BLOCKS; b++) {
      blocks[b].scales[first + i] = scales[b];
      if constexpr (F::HAS_MINIMUM) blocks[b].minimums[first + i] = minimums[b];
      if constexpr (F::HAS_HALF_SCALES) {
        for (int h = 0; h < 2; h++) {
          blocks[b].half_scales[h][first + i] = static_cast<float>(half_scales[2 * b + h]);
          if constexpr (F::HAS_MINIMUM) {
            blocks[b].half_minimums[h][first + i] = static_cast<float>(half_minimums[2 * b + h]);
          }
        }
      }
    }
  }
#pragma GCC unroll 1
  for (int b = 0; b < GROUP_BLOCKS; b++) {
    Ints v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) v[i] = H::quants(rows[i], b);
    transpose(v);
#pragma GCC unroll 8
    for (int q = 0; q < QUADS; q++) _mm256_store_si256(reinterpret_cast<__m256i*>(&blocks[b].quants[q][first]), v[q]);
  }
}

// Inputs of a micro-kernel for one group of T tokens.
template <int T>
struct Tokens {
  const int8_t* quants[T];
  alignas(32) float scales[T][GROUP_BLOCKS];
  alignas(32) float scaled_sums[T][GROUP_BLOCKS];
  // The sums of halves' quants, where halves have minimums.
  alignas(32) float half_sums[T][2 * GROUP_BLOCKS];
  // Negative contribution of the weights' zero point: of each block, or of each half of one.
  alignas(32) int32_t offsets[T][2 * GROUP_BLOCKS];

  // `zero`: by how much the weights' quants are too large.
  template <class K>
  void prepare(int t, const Q8Input& x, int zero) {
    quants[t] = x.quants;
    std::memcpy(scales[t], x.scales, sizeof(scales[t]));
    if constexpr (K::HAS_MINIMUM && K::HAS_HALF_SCALES) {
      for (int h = 0; h < 2 * GROUP_BLOCKS; h++) half_sums[t][h] = static_cast<float>(x.sums[h]);
    } else if constexpr (K::HAS_MINIMUM) {
      _mm256_store_ps(scaled_sums[t], forge::scaled_sums(x));
    }
    if constexpr (K::HAS_HALF_SCALES) {
      for (int h = 0; h < 2 * GROUP_BLOCKS; h++) offsets[t][h] = K::HAS_ZERO ? -zero * x.sums[h] : 0;
    } else if constexpr (K::HAS_ZERO) {
      const Ints sums = _mm256_madd_epi16(load_bytes(x.sums), _mm256_set1_epi16(static_cast<int16_t>(-zero)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(offsets[t]), sums);
    }
  }
};

// Adds quads first .. last - 1 of a block to `products`.
template <class K, int T>
DEVICE void add_quads(TileInts (&products)[VECTORS][T], const Block<K>& block, const Tokens<T>& tokens, int b,
                      int first, int last) {
#pragma GCC unroll 8
  for (int q = first; q < last; q++) {
    TileInts w[VECTORS];
#pragma GCC unroll 2
    for (int r = 0; r < VECTORS; r++) w[r] = load(&block.quants[q][r * LANES]);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
      const TileInts x = broadcast(load_unaligned<int32_t>(tokens.quants[t] + b * Q8_BLOCK + q * QUAD));
#pragma GCC unroll 2
      for (int r = 0; r < VECTORS; r++) {
        products[r][t] = dot_bytes<K::BITS>(products[r][t], w[r], x);
      }
    }
  }
}

// Adds block b of a group to the partial sums b of T tokens, each token's `apart` floats behind the one before.
template <class K, int T>
DEVICE void add_block(float* sums, int apart, const Block<K>& block, const Tokens<T>& tokens, int b) {
  TileInts products[VECTORS][T];
  TileFloats values[VECTORS][T];
  if constexpr (K::HAS_HALF_SCALES) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
#pragma GCC unroll 8
      for (int t = 0; t < T; t++) {
        for (int r = 0; r < VECTORS; r++) products[r][t] = broadcast(tokens.offsets[t][2 * b + h]);
      }
      add_quads(products, block, tokens, b, h * QUADS / 2, (h + 1) * QUADS / 2);
#pragma GCC unroll 8
      for (int t = 0; t < T; t++) {
#pragma GCC unroll 2
        for (int r = 0; r < VECTORS; r++) {
          // Whole numbers below 2^24: exact.
          const TileFloats scale = load(&block.half_scales[h][r * LANES]), product = to_floats(products[r][t]);
          values[r][t] = h == 0 ? multiply(product, scale) : multiply_add(product, scale, values[r][t]);
        }
      }
    }
  } else {
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
#pragma GCC unroll 2
      for (int r = 0; r < VECTORS; r++) {
        products[r][t] = broadcast(K::HAS_ZERO ? tokens.offsets[t][b] : 0);
      }
    }
    add_quads(products, block, tokens, b, 0, QUADS);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
#pragma GCC unroll 2
      for (int r = 0; r < VECTORS; r++) values[r][t] = to_floats(products[r][t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; t++) {
    const TileFloats scale = broadcast(tokens.scales[t][b]);
#pragma GCC unroll 2
    for (int r = 0; r < VECTORS; r++) {
      float* target = sums + t * apart + b * ROWS + r * LANES;
      TileFloats sum = multiply_add(values[r][t], multiply(load(&block.scales[r * LANES]), scale), load(target));
      if constexpr (K::HAS_MINIMUM && K::HAS_HALF_SCALES) {
        // Whole numbers below 2^24, too.
        const float* const halves = &tokens.half_sums[t][2 * b];
        const TileFloats low = multiply(load(&block.half_minimums[0][r * LANES]), broadcast(halves[0]));
        const TileFloats both = multiply_add(load(&block.half_minimums[1][r * LANES]), broadcast(halves[1]), low);
        sum = subtract_product(load(&block.minimums[r * LANES]), multiply(scale, both), sum);
      } else if constexpr (K::HAS_MINIMUM) {
        sum = subtract_product(load(&block.minimums[r * LANES]), broadcast(tokens.scaled_sums[t][b]), sum);
      }
      store(target, sum);
    }
  }
}

// Adds `blocks` blocks of K, the first of them a row's block `done`, to the partial sums of T tokens.
template <class K, int T>
__attribute__((noinline, noclone)) void add_panel(float* sums, int partials, const Block<K>* panel, const Q8Input* x,
                                                  int done, int blocks, int zero) {
  for (int first = 0; first < blocks; first += GROUP_BLOCKS) {
    const int count = blocks - first < GROUP_BLOCKS ? blocks - first : GROUP_BLOCKS;
    Tokens<T> tokens;
    for (int t = 0; t < T; t++) {
      const Q8Input here = advance(x[t], first / GROUP_BLOCKS);
      if (count == GROUP_BLOCKS) {
        tokens.template prepare<K>(t, here, zero);
      } else {
        tokens.template prepare<K>(t, PaddedInput(here, count).input(), zero);
        tokens.quants[t] = here.quants;
      }
    }
    float* const own = sums + (done + first) % partials * ROWS;
    for (int b = 0; b < count; b++) add_block<K, T>(own, partials * ROWS, panel[first + b], tokens, b);
  }
}

// The sum of a row's partial sums, each vector of rows ROWS behind the one before: as dot_quant's.
DEVICE TileFloats sum_partials(const float* sums, int partials) {
  if (partials == GROUP_BLOCKS) {
    TileFloats s[GROUP_BLOCKS];
    for (int b = 0; b < GROUP_BLOCKS; b++) s[b] = load(sums + b * ROWS);
    // The order of sum_of_partials.
    return add(add(add(s[0], s[4]), add(s[2], s[6])), add(add(s[1], s[5]), add(s[3], s[7])));
  }
  constexpr int IN_ORDER = 32;
  const auto lane = [&](int l) {
    const TileFloats low = load(sums + l * ROWS);
    return partials > IN_ORDER ? add(low, load(sums + (l + IN_ORDER) * ROWS)) : low;
  };
  TileFloats sum = lane(0);
  for (int l = 1; l < IN_ORDER; l++) sum = add(sum, lane(l));
  return sum;
}

// y[t][n] for `count` tokens, of which `partials` times as many are at most MOST_SUMS, and rows first .. last - 1 of
// the weight, at most ROWS.
template <class F>
void multiply_tile(const uint8_t* weight, size_t row_bytes, int in, const Q8Input* x, int count, float* y, int y_stride,
                   int first, int last, int partials) {
  alignas(64) float sums[MOST_SUMS * ROWS];
  using K = KindOf<F>;
  constexpr int ZERO = HostBlocks<F>::ZERO;
  Panel<K> panel;
  const int apart = partials * ROWS;
  std::memset(sums, 0, static_cast<size_t>(count) * apart * sizeof(float));
  const int blocks = in / Q8_BLOCK;
  // Position in its row of a block that is the first of a group.
  const auto offset = [](int block) { return static_cast<size_t>(block / GROUP_BLOCKS) * GROUP_BYTES<F>; };
  for (int done = 0; done < blocks; done += MOST_GROUPS * GROUP_BLOCKS) {
    const int here = blocks - done < MOST_GROUPS * GROUP_BLOCKS ? blocks - done : MOST_GROUPS * GROUP_BLOCKS;
    // Prefetches the blocks unpacked next: more of the same rows, or the next tile's. No hardware prefetcher follows so
    // many rows.
    const size_t ahead = here < blocks - done ? MOST_GROUPS * GROUP_BYTES<F> : ROWS * row_bytes - offset(done);
    for (int b = 0; b < here; b += GROUP_BLOCKS) {
      for (int r = 0; r < ROWS; r += 8) {
        uint8_t padded[8][GROUP_BYTES<F>];
        const uint8_t* rows[8];
#pragma GCC unroll 1
        for (int i = 0; i < 8; i++) {
          // Rows past the end repeat the last one; they are not stored.
          const int row = first + r + i < last ? first + r + i : last - 1;
          rows[i] = weight + row * row_bytes + offset(done + b);
          for (int line = 0; line < GROUP_BYTES<F>; line += 64) __builtin_prefetch(rows[i] + ahead + line, 0, 2);
          // A last, shorter group goes on with the next rows, which nobody reads; behind the last row nothing is read.
          const size_t present =
              static_cast<size_t>(min_of(here - b, GROUP_BLOCKS)) * Q8_BLOCK / F::ELEMENTS * F::BYTES;
          if ((last - 1 - row) * row_bytes + present < GROUP_BYTES<F>) {
            std::memcpy(padded[i], rows[i], present);
            std::memset(padded[i] + present, 0, GROUP_BYTES<F> - present);
            rows[i] = padded[i];
          }
        }
        unpack_rows<F>(rows, r, panel + b);
      }
    }
    Q8Input at[MOST_TOKENS];
    for (int t = 0; t < count; t++) at[t] = advance(x[t], done / GROUP_BLOCKS);
    constexpr int MANY = F::HAS_HALF_SCALES ? TOKENS_AT_ONCE / 2 : TOKENS_AT_ONCE;
    int t = 0;
    for (; t + MANY <= count; t += MANY)
      add_panel<K, MANY>(sums + t * apart, partials, panel, at + t, done, here, ZERO);
    for (; t + 2 <= count; t += 2) add_panel<K, 2>(sums + t * apart, partials, panel, at + t, done, here, ZERO);
    if (t < count) add_panel<K, 1>(sums + t * apart, partials, panel, at + t, done, here, ZERO);
  }
  for (int t = 0; t < count; t++) {
    for (int r = 0; r < ROWS && first + r < last; r += LANES) {
      const TileFloats sum = sum_partials(sums + t * apart + r, partials);
      store_first(y + static_cast<size_t>(t) * y_stride + first + r, sum, last - first - r);
    }
  }
}

}  // namespace forge::tile
