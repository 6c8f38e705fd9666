// The product of quantized weights and quantized activations: what matmul_quantized.hip is made of.
#pragma once

#include "grid_blocks.h"
#include "q8.h"

// FORGE_PACKED_FORMATS on the host, which computes them for a GPU; on GPUs none.
#if WAVE == 1
#include "host_tile.h"
#define FORGE_HOST_PACKED_FORMATS(macro) FORGE_PACKED_FORMATS(macro)
#else
#define FORGE_HOST_PACKED_FORMATS(macro)
#endif

namespace forge {

#if WAVE == 1

// y[t][n] for tokens 0 .. count - 1 and rows first .. last - 1, on this thread. Compiled once a format and number of
// partial sums, not again in each kernel.
template <class F, int PARTIALS = GROUP_BLOCKS>
__attribute__((noinline)) void multiply_rows(const uint8_t* __restrict weight, size_t row_bytes, int in,
                                             const uint8_t* __restrict x, int first_token, int last_token,
                                             float* __restrict y, int y_stride, int first, int last) {
  // Below this many tokens unpacking a tile costs more than reading each row once a token.
  constexpr int TILE_FROM = 3, AT_ONCE = tile::MOST_SUMS / PARTIALS;
  const int count = last_token - first_token;
  Q8Input inputs[tile::MOST_TOKENS];
  for (int t = 0; t < count; t++) inputs[t] = q8_input(x, first_token + t, in);
  float* target = y + static_cast<size_t>(first_token) * y_stride;
  if (count >= TILE_FROM) {
    for (int row = first; row < last; row += tile::ROWS) {
      const int end = min_of(last, row + tile::ROWS);
      for (int t = 0; t < count; t += AT_ONCE) {
        float* const own = target + static_cast<size_t>(t) * y_stride;
        const int here = min_of(AT_ONCE, count - t);
        tile::multiply_tile<F>(weight, row_bytes, in, inputs + t, here, own, y_stride, row, end, PARTIALS);
      }
    }
    return;
  }
  for (int t = 0; t < count; t++) {
    float* const own = target + static_cast<size_t>(t) * y_stride;
    dot_rows<F, PARTIALS>(weight, row_bytes, in, inputs[t], own, first, last);
  }
}

#else

// This lane's part of sum_k weight[k] * x[k]: eight neighbours at a time, so that four lanes share 32 elements.
template <class F>
DEVICE float dot_quant(const uint8_t* weight, const Q8Input& x, int in) {
  constexpr int PART = 8;
  float sum = 0.0f;
  for (int i = lane_id() * PART; i < in; i += WAVE * PART) {
    const uint8_t* block = weight + static_cast<size_t>(i / F::ELEMENTS) * F::BYTES;
    const int e = i % F::ELEMENTS;
    int products = dot4(quants4<F>(block, e), load_unaligned<int32_t>(x.quants + i), 0);
    products = dot4(quants4<F>(block, e + 4), load_unaligned<int32_t>(x.quants + i + 4), products);
    const float scale = x.scales[i / Q8_BLOCK];
    sum = multiply_add(static_cast<float>(products), F::scale(block, e) * scale, sum);
    if (F::HAS_MINIMUM && i % (F::HAS_HALF_SCALES ? Q8_BLOCK / 2 : Q8_BLOCK) == 0) {
      const int quants = x.sums[i / 16] + (F::HAS_HALF_SCALES ? 0 : x.sums[i / 16 + 1]);
      sum = multiply_add(-F::minimum(block, e), scale * static_cast<float>(quants), sum);
    }
  }
  return sum;
}

template <class F>
DEVICE void multiply_rows(const uint8_t* __restrict weight, size_t row_bytes, int in, const uint8_t* __restrict x,
                          int first_token, int last_token, float* __restrict y, int y_stride, int first, int last) {
  for (int row = first + wave_id(); row < last; row += WAVES) {
    for (int t = first_token; t < last_token; t++) {
      const float sum = wave_sum(dot_quant<F>(weight + row * row_bytes, q8_input(x, t, in), in));
      if (lane_id() == 0) y[static_cast<size_t>(t) * y_stride + row] = sum;
    }
  }
}

#endif

}  // namespace forge
