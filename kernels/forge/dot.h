// Dot products over the lanes of a wave: the inner operation of every matrix-vector product and of attention.
#pragma once

#include "device.h"

namespace forge {

// This lane's part of sum_i w[i] * x[i], i < n; wave_sum of it is the whole. Elements are taken in one fixed order that
// depends on n alone, so a row's bits never depend on what else is computed.
#if WAVE == 1
template <class W>
DEVICE float dot(const W* w, const float* x, int n) {
  Vector a = vector_zero(), b = vector_zero(), c = vector_zero(), d = vector_zero();
  int i = 0;
  for (; i + 4 * SIMD_WIDTH <= n; i += 4 * SIMD_WIDTH) {
    a = multiply_add(load_vector(w + i), load_vector(x + i), a);
    b = multiply_add(load_vector(w + i + SIMD_WIDTH), load_vector(x + i + SIMD_WIDTH), b);
    c = multiply_add(load_vector(w + i + 2 * SIMD_WIDTH), load_vector(x + i + 2 * SIMD_WIDTH), c);
    d = multiply_add(load_vector(w + i + 3 * SIMD_WIDTH), load_vector(x + i + 3 * SIMD_WIDTH), d);
  }
  for (; i + SIMD_WIDTH <= n; i += SIMD_WIDTH) a = multiply_add(load_vector(w + i), load_vector(x + i), a);
  float sum = horizontal_sum(add(add(a, b), add(c, d)));
  for (; i < n; i++) sum += to_float(w[i]) * x[i];
  return sum;
}
#else
template <class W>  // a pointer, or an array in LDS
DEVICE float dot(W w, const float* x, int n) {
  float sum = 0.0f;
  for (int i = lane_id(); i < n; i += WAVE) sum = multiply_add(to_float(w[i]), x[i], sum);
  return sum;
}
#endif

#if WAVE > 1
// sums[t] = dot(w, x + t * stride, n) for T rows of x, to the bit, with each element of w brought once.
template <int T, class W>
DEVICE void dots(float* sums, const W* w, const float* x, size_t stride, int n) {
  UNROLL
  for (int t = 0; t < T; t++) sums[t] = dot(w, x + t * stride, n);
}
#endif

// Number of n elements that a lane holds if element i belongs to lane i % WAVE.
constexpr int lane_elements(int n) { return (n + WAVE - 1) / WAVE; }

// values += weight * v[0 .. N), each lane its own elements.
template <int N, class V>
DEVICE void accumulate(float* values, V v, float weight) {
#if WAVE == 1
  if (N % SIMD_WIDTH == 0) {
    for (int i = 0; i < N; i += SIMD_WIDTH) {
      store_vector(values + i, multiply_add(load_vector(v + i), broadcast(weight), load_vector(values + i)));
    }
    return;
  }
#endif
  UNROLL
  for (int e = 0; e < lane_elements(N); e++) {
    const int i = e * WAVE + lane_id();
    if (i < N) values[e] = multiply_add(weight, to_float(v[i]), values[e]);
  }
}

}  // namespace forge
