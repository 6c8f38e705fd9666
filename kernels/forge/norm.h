// The factor by which root mean square normalization multiplies a row: Zhang & Sennrich (2019).
#pragma once

#include "reduce.h"
#include "words.h"

namespace forge {

// 1 / sqrt(mean(x²) + eps) of a row: all threads of a block together. The order of the sum depends on `hidden` alone.
template <class T>
DEVICE float rms_scale(const T* x, int hidden, float eps) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) sum += to_float(x[i]) * to_float(x[i]);
  return rsqrt_of(block_sum(sum) / static_cast<float>(hidden) + eps);
}

#if WAVE > 1
// Of f32 rows that lie at 16 bytes, four elements at a time.
DEVICE float rms_scale(const float* x, int hidden, float eps) {
  if (hidden % 4 != 0) return rms_scale<float>(x, hidden, eps);
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 4 * thread_id(); i < hidden; i += 4 * BLOCK) {
    const Floats4 four = load_aligned<Floats4>(x + i);
    UNROLL
    for (int j = 0; j < 4; j++) sums[j] = multiply_add(four.f[j], four.f[j], sums[j]);
  }
  const float sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return rsqrt_of(sum / static_cast<float>(hidden) + eps);
}
#endif

// Row `row` of y from that of x, which y may be: a thread reads and writes its own elements. One block a row.
template <class T>
DEVICE void normalize(int row, const T* x, const float* __restrict weight, T* y, int hidden, float eps) {
  const T* in = x + static_cast<size_t>(row) * hidden;
  T* out = y + static_cast<size_t>(row) * hidden;
  const float scale = rms_scale(in, hidden, eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) store(out + i, to_float(in[i]) * scale * weight[i]);
}

}  // namespace forge
