// Many dot products at once on the host: rows of a weight times rows of x, each to the bit as dot() computes it.
//
// dot() adds to four vectors of partial sums in turn. Here each of the four is a pass over the elements that are its
// own: the sums of ROWS x TOKENS products then stay in registers, and each vector that is read serves several of them.
#pragma once

#include "dot.h"

namespace forge::host_dots {

constexpr int PARTS = 4;
// Rows of the weight times rows of x whose sums are in registers: 24 of 32, or all 16, which compilers order well.
#if defined(__AVX512F__)
constexpr int ROWS = 4, TOKENS = 6;
#else
constexpr int ROWS = 4, TOKENS = 4;
#endif
// Elements of each row that the four passes share: they stay in the first-level cache.
constexpr int CHUNK = 512;

// The sums of the lanes of four vectors, each in the order of horizontal_sum: halves first, then quarters, and so on.
#if defined(__AVX512F__)
DEVICE __m128 horizontal_sums(Vector a, Vector b, Vector c, Vector d) {
  const Vector ab = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  const Vector cd = add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
  const Vector quarters = add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const Vector pairs = add(quarters, _mm512_permute_ps(quarters, 0x4e));
  const Vector sums = add(pairs, _mm512_permute_ps(pairs, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, sums));
}
#else
DEVICE __m128 horizontal_sums(Vector a, Vector b, Vector c, Vector d) {
  const Vector ab = add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  const Vector cd = add(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
  // Lanes 0 and 1 of each half of ab and cd, plus lanes 2 and 3.
  const Vector pairs = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const Vector sums = add(pairs, _mm256_permute_ps(pairs, 0xb1));
  // Halves: a and c, then b and d.
  const __m128 low = _mm256_castps256_ps128(sums), high = _mm256_extractf128_ps(sums, 1);
  return _mm_shuffle_ps(_mm_unpacklo_ps(low, high), _mm_unpackhi_ps(low, high), 0x44);
}
#endif

// sums[r][t] = dot(w + r * n, x + t * stride, n) for R rows of the weight and T of x.
template <int R, int T, class W>
DEVICE void dots_of_rows(float (&sums)[R][T], const W* w, const float* x, size_t stride, int n) {
  static_assert(R * T % 4 == 0, "four dot products are reduced at once");
  Vector parts[PARTS][R * T];
  const int whole = n - n % (PARTS * SIMD_WIDTH);
  for (int first = 0; first == 0 || first < whole; first += CHUNK) {
    const int last = min_of(whole, first + CHUNK);
    for (int p = 0; p < PARTS; p++) {
      Vector own[R][T];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) own[r][t] = first == 0 ? vector_zero() : parts[p][r * T + t];
      }
      for (int i = first + p * SIMD_WIDTH; i < last; i += PARTS * SIMD_WIDTH) {
        Vector weights[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
          const W* const weight = w + static_cast<size_t>(r) * n + i;
          weights[r] = load_vector(weight);
          // The rows that are next: no hardware prefetcher follows every fourth vector of so many rows.
          __builtin_prefetch(weight + static_cast<size_t>(R) * n);
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
          const Vector other = load_vector(x + t * stride + i);
#pragma GCC unroll 8
          for (int r = 0; r < R; r++) own[r][t] = multiply_add(weights[r], other, own[r][t]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) parts[p][r * T + t] = own[r][t];
      }
    }
  }
  int done = whole;
  for (; done + SIMD_WIDTH <= n; done += SIMD_WIDTH) {
    for (int e = 0; e < R * T; e++) {
      const Vector weight = load_vector(w + static_cast<size_t>(e / T) * n + done);
      parts[0][e] = multiply_add(weight, load_vector(x + e % T * stride + done), parts[0][e]);
    }
  }
  float* const all = &sums[0][0];
  for (int e = 0; e < R * T; e += 4) {
    Vector v[4];
    for (int i = 0; i < 4; i++)
      v[i] = add(add(parts[0][e + i], parts[1][e + i]), add(parts[2][e + i], parts[3][e + i]));
    _mm_storeu_ps(all + e, horizontal_sums(v[0], v[1], v[2], v[3]));
  }
  for (int e = 0; e < R * T; e++) {
    for (int i = done; i < n; i++) all[e] += to_float(w[static_cast<size_t>(e / T) * n + i]) * x[e % T * stride + i];
  }
}

// y[t][n] of T rows of x and rows first .. last - 1 of the weight.
template <int T, class W>
DEVICE void multiply_tokens(const W* weight, const float* x, float* y, int first, int last, int in, size_t x_stride,
                            size_t y_stride) {
  int n = first;
  for (; n + ROWS <= last; n += ROWS) {
    float sums[ROWS][T];
    dots_of_rows(sums, weight + static_cast<size_t>(n) * in, x, x_stride, in);
    for (int r = 0; r < ROWS; r++) {
      for (int t = 0; t < T; t++) y[t * y_stride + n + r] = sums[r][t];
    }
  }
  for (; n < last; n++) {
    const W* row = weight + static_cast<size_t>(n) * in;
    for (int t = 0; t < T; t++) y[t * y_stride + n] = dot(row, x + t * x_stride, in);
  }
}

// y[t][n] of as many of `count` rows of x as are multiplied at once, at most T, and rows first .. last - 1 of the
// weight. Returns the number of rows of x.
template <int T = TOKENS, class W>
DEVICE int multiply(const W* weight, const float* x, float* y, int count, int first, int last, int in, size_t x_stride,
                    size_t y_stride) {
  if constexpr (T > 1) {
    if (count < T) return multiply<T - 1>(weight, x, y, count, first, last, in, x_stride, y_stride);
    multiply_tokens<T>(weight, x, y, first, last, in, x_stride, y_stride);
  } else {
    // A row of the weight that is read once by the step is best read from its first byte to its last.
    for (int n = first; n < last; n++) y[n] = dot(weight + static_cast<size_t>(n) * in, x, in);
  }
  return T;
}

}  // namespace forge::host_dots
