// Products of tiles where there are no matrix units: each lane makes its own sums by dot instructions, of what all
// lanes of its wave hold. The lanes l with l % 16 == r hold row r of an operand between them, PRODUCT_ELEMENTS each;
// sum i of lane l is of row value_row(i) of a and row l % 16 of b.
#pragma once

#include "words.h"

// A loop over the lanes that hold an operand mostly takes fewer registers than the same written out; kernels for which
// it is the other way round say so.
#if defined(FORGE_DOTS_WRITTEN_OUT)
#define DOT_LOOP UNROLL
#else
#define DOT_LOOP ROLLED
#endif

namespace forge {

#if defined(__HIP__)

// N words of each lane of a wave.
template <int N>
struct WaveWords {
  const uint32_t (&own)[N];
};
template <int N>
DEVICE uint32_t word_of_lane(const WaveWords<N>& words, int lane, int n) {
  return static_cast<uint32_t>(__builtin_amdgcn_ds_bpermute(lane << 2, static_cast<int>(words.own[n])));
}
template <int N>
DEVICE WaveWords<N> words_of_wave(const uint32_t (&own)[N]) {
  return {own};
}

// 0, of which the compiler does not know it: what was fetched for one product is not kept for the next.
DEVICE int zero_anew() {
  int zero = 0;
  asm volatile("" : "+s"(zero));
  return zero;
}

DEVICE float dot_halves(uint32_t a, uint32_t b, float c) {
  using Pair = VectorOf<half_t, 2>;
  return __builtin_amdgcn_fdot2(__builtin_bit_cast(Pair, a), __builtin_bit_cast(Pair, b), c, false);
}

#else

template <int N>
struct WaveWords {
  uint32_t of[WAVE][N];
};
template <int N>
DEVICE uint32_t word_of_lane(const WaveWords<N>& words, int lane, int n) {
  return words.of[lane][n];
}
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
      std::memcpy(static_cast<WaveWordsOperands<N>*>(operands[to])->gathered->of[from], own, sizeof(uint32_t) * N);
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
DEVICE int zero_anew() { return 0; }

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
  const int zero = zero_anew();
  DOT_LOOP
  for (int holder = 0; holder < WAVE; holder += 16) {
    UNROLL
    for (int n = 0; n < N; n++) {
      const uint32_t column = word_of_lane(columns, lane_id() % 16 + holder + zero, n);
      schedule_here();
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++)
        sums[i] = dot(word_of_lane(rows, value_row(i) + holder + zero, n), column, sums[i]);
    }
  }
  return sums;
}

// Elements of an operand that a lane holds.
template <class T>
struct Operand {
  uint32_t w[PRODUCT_ELEMENTS / 2];
};
DEVICE Sums product(const Operand<half_t>& a, const Operand<half_t>& b, Sums sums) {
  return dot_products(a.w, b.w, sums, [](uint32_t x, uint32_t y, float c) { return dot_halves(x, y, c); });
}
DEVICE Sums product(const Operand<bfloat_t>& a, const Operand<bfloat_t>& b, Sums sums) {
  return dot_products(a.w, b.w, sums, [](uint32_t x, uint32_t y, float c) { return dot_bfloats(x, y, c); });
}
DEVICE Sums product(VectorOf<half_t, PRODUCT_ELEMENTS> a, VectorOf<half_t, PRODUCT_ELEMENTS> b, Sums sums) {
  return product(__builtin_bit_cast(Operand<half_t>, a), __builtin_bit_cast(Operand<half_t>, b), sums);
}
// Eight signed bytes of a lane.
DEVICE VectorOf<int, TILE_VALUES> product(const Words2& a, const Words2& b, VectorOf<int, TILE_VALUES> sums) {
  const auto dot = [](uint32_t x, uint32_t y, int c) { return dot4(static_cast<int>(x), static_cast<int>(y), c); };
  return dot_products(a.w, b.w, sums, dot);
}

}  // namespace forge
