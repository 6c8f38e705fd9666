// Rows of a weight in floats times rows of x: a block's part of matmul.hip.
#pragma once

#include "contract.h"
#include "dot.h"
#if WAVE == 1
#include "host_dots.h"
#endif

namespace forge {

#if WAVE == 1

// Grid: x = ceil(out / MATMUL_HOST_ROWS), y = ceil(tokens / MATMUL_HOST_TOKENS). Compiled once a type, not again in
// each kernel.
template <class W>
__attribute__((noinline)) void matmul(Dim3 block, const W* __restrict weight, const float* __restrict x,
                                      float* __restrict y, const int32_t* __restrict tokens, int out, int in,
                                      int x_stride, int y_stride) {
  const int first = block.x * MATMUL_HOST_ROWS, last = min_of(out, first + MATMUL_HOST_ROWS);
  const int end = min_of(*tokens, (block.y + 1) * MATMUL_HOST_TOKENS);
  for (int t = block.y * MATMUL_HOST_TOKENS; t < end;) {
    const float* row = x + static_cast<size_t>(t) * x_stride;
    float* target = y + static_cast<size_t>(t) * y_stride;
    t += host_dots::multiply(weight, row, target, end - t, first, last, in, x_stride, y_stride);
  }
}

#else

// Rows of x that a wave multiplies in one pass over its row of the weight.
constexpr int MATMUL_AT_ONCE = 4;

// Grid: x = ceil(out / WAVES), y = ceil(tokens / MATMUL_TOKENS).
template <class W>
DEVICE void matmul(Dim3 block, const W* __restrict weight, const float* __restrict x, float* __restrict y,
                   const int32_t* __restrict tokens, int out, int in, int x_stride, int y_stride) {
  const int n = block.x * WAVES + wave_id();
  if (n >= out) return;
  const W* w = weight + static_cast<size_t>(n) * in;
  const int end = min_of(*tokens, (block.y + 1) * MATMUL_TOKENS);
  int t = block.y * MATMUL_TOKENS;
  for (; t + MATMUL_AT_ONCE <= end; t += MATMUL_AT_ONCE) {
    float sums[MATMUL_AT_ONCE];
    dots<MATMUL_AT_ONCE>(sums, w, x + static_cast<size_t>(t) * x_stride, x_stride, in);
    UNROLL
    for (int i = 0; i < MATMUL_AT_ONCE; i++) {
      const float sum = wave_sum(sums[i]);
      if (lane_id() == 0) y[static_cast<size_t>(t + i) * y_stride + n] = sum;
    }
  }
  for (; t < end; t++) {
    const float sum = wave_sum(dot(w, x + static_cast<size_t>(t) * x_stride, in));
    if (lane_id() == 0) y[static_cast<size_t>(t) * y_stride + n] = sum;
  }
}

#endif

}  // namespace forge
