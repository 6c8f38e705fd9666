// Products of tiles where there are no matrix units: each lane makes its own sums by dot instructions, of what all lanes of
// its wave hold. The lanes l with l % 16 == r hold row r of an operand between them, PRODUCT_ELEMENTS each; sum i of
// lane l is of row value_row(i) of a and row l % 16 of b.
#pragma once

#include "words.h"

namespace forge {

#if defined(__HIP__)

// N words of each lane of a wave.
template <int N>
struct WaveWords {
  const uint32_t (&own)[N];
  DEVICE uint32_t of_lane(int lane, int n) const {
    return static_cast<uint32_t>(__builtin_amdgcn_ds_bpermute(lane << 2, static_cast<int>(own[n])));
  }
};
template <int N>
DEVICE WaveWords<N> words_of_wave(const uint32_t (&own)[N]) {
  return {own};
}

DEVICE float dot_halves(uint32_t a, uint32_t b, float c) {
  using Pair = VectorOf<half_t, 2>;
  return __builtin_amdgcn_fdot2(__builtin_bit_cast(Pair, a), __builtin_bit_cast(Pair, b), c, false);
}

#else

template <int N>
struct WaveWords {
  uint32_t words[WAVE][N];
  uint32_t of_lane(int lane, int n) const { return words[lane][n]; }
};
template <int N>
struct WaveWordsOperands {
  WaveWords<N>* gathered;
  const uint32_t* own;
};
template <int N>
void gather_words(void* const* operands) {
  for (int to = 0; to < WAVE; to++) {
    for (int from = 0; from < WAVE; from++) {
      const uint32_t* own = static_cast<const WaveWordsOperands<N>*>(operands[from])->own;
      std::memcpy(static_cast<WaveWordsOperands<N>*>(operands[to])->gathered->words[from], own, sizeof(uint32_t) * N);
    }
  }
}
template <int N>
WaveWords<N> words_of_wave_at(int site, const uint32_t (&own)[N]) {
  WaveWords<N> gathered;
  WaveWordsOperands<N> operands{&gathered, own};
  lanes::run_together(gather_words<N>, &operands, site);
  return gathered;
}
#define words_of_wave(...) words_of_wave_at(__COUNTER__, __VA_ARGS__)

DEVICE float dot_halves(uint32_t a, uint32_t b, float c) {
  const auto x = __builtin_bit_cast(VectorOf<half_t, 2>, a), y = __builtin_bit_cast(VectorOf<half_t, 2>, b);
  return multiply_add(to_float(x[1]), to_float(y[1]), multiply_add(to_float(x[0]), to_float(y[0]), c));
}

#endif

// No instruction multiplies bfloat16: its numbers are the high halves of f32's.
DEVICE float dot_bfloats(uint32_t a, uint32_t b, float c) {
  const auto high = [](uint32_t word) { return __builtin_bit_cast(float, word & 0xffff0000u); };
  return multiply_add(high(a), high(b), multiply_add(high(a << 16), high(b << 16), c));
}

// sums[i] += the products of what the lanes of both rows hold, N words each, lane by lane.
template <int N, class Sum, class Dot>
DEVICE VectorOf<Sum, TILE_VALUES> dot_products(const uint32_t (&a)[N], const uint32_t (&b)[N],
                                               VectorOf<Sum, TILE_VALUES> sums, Dot dot) {
  const WaveWords<N> rows = words_of_wave(a), columns = words_of_wave(b);
  UNROLL
  for (int holder = 0; holder < WAVE; holder += 16) {
    UNROLL
    for (int n = 0; n < N; n++) {
      const uint32_t column = columns.of_lane(lane_id() % 16 + holder, n);
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++) sums[i] = dot(rows.of_lane(value_row(i) + holder, n), column, sums[i]);
    }
  }
  return sums;
}

struct ProductWords {
  uint32_t w[PRODUCT_ELEMENTS / 2];
};
DEVICE Sums product(VectorOf<half_t, PRODUCT_ELEMENTS> a, VectorOf<half_t, PRODUCT_ELEMENTS> b, Sums sums) {
  const auto dot = [](uint32_t x, uint32_t y, float c) { return dot_halves(x, y, c); };
  return dot_products(__builtin_bit_cast(ProductWords, a).w, __builtin_bit_cast(ProductWords, b).w, sums, dot);
}
DEVICE Sums product(VectorOf<int16_t, PRODUCT_ELEMENTS> a, VectorOf<int16_t, PRODUCT_ELEMENTS> b, Sums sums) {
  const auto dot = [](uint32_t x, uint32_t y, float c) { return dot_bfloats(x, y, c); };
  return dot_products(__builtin_bit_cast(ProductWords, a).w, __builtin_bit_cast(ProductWords, b).w, sums, dot);
}
// Eight signed bytes of a lane.
DEVICE VectorOf<int, TILE_VALUES> product(const Words2& a, const Words2& b, VectorOf<int, TILE_VALUES> sums) {
  const auto dot = [](uint32_t x, uint32_t y, int c) { return dot4(static_cast<int>(x), static_cast<int>(y), c); };
  return dot_products(a.w, b.w, sums, dot);
}

}  // namespace forge
