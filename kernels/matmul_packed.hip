// matmul_packed: y[t][n] = sum_k weight[n][k] * x[t][k], weight as repack makes it, x as quantize_q8 makes it
//
// For GPUs. A wave takes two rows of the weight at a time and reads them once for up to eight rows of x. The order of
// summation depends on k alone, so a row's bits do not depend on how many rows there are.
#include "forge/packed_dot.h"

namespace {
using namespace forge;

// Rows of the weight that one block multiplies, and a wave at a time.
constexpr int ROWS = 16, ROWS_AT_ONCE = 2;

template <class F, int T, class Lanes>
DEVICE void multiply(Dim3 block, const uint8_t* __restrict weight, const uint8_t* __restrict x, float* __restrict y,
                     int first_token, int last_token, int out, int blocks, int y_stride, int accumulate, Lanes lanes) {
  const int first = block.x * ROWS;
  const size_t row_bytes = packed_row_bytes<F>(blocks);
  const int x_bytes = blocks * Q8_BLOCK_BYTES;
  int offsets[T];
  UNROLL
  for (int t = 0; t < T; t++) offsets[t] = min_of(t, last_token - first_token - 1) * x_bytes;

  for (int r = wave_id() * ROWS_AT_ONCE; r < ROWS; r += WAVES * ROWS_AT_ONCE) {
    const uint8_t* rows[ROWS_AT_ONCE];
    UNROLL
    for (int i = 0; i < ROWS_AT_ONCE; i++) rows[i] = weight + min_of(first + r + i, out - 1) * row_bytes;
    float sums[ROWS_AT_ONCE][T];
    packed_dots<F>(sums, rows, x + static_cast<size_t>(first_token) * x_bytes, offsets, blocks);
    UNROLL
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
      UNROLL
      for (int t = 0; t < T; t++) store_lane_sum(lanes, t * ROWS + r + i, sums[i][t]);
    }
  }
  block_sync();
  for (int i = thread_id(); i < ROWS * T; i += BLOCK) {
    const int n = first + i % ROWS, t = first_token + i / ROWS;
    if (n >= out || t >= last_token) continue;
    const float sum = sum_in_order(lanes, i);
    float* target = y + static_cast<size_t>(t) * y_stride + n;
    *target = accumulate ? *target + sum : sum;
  }
}

// Grid: x = ceil(out / ROWS), y = ceil(tokens / PACKED_TOKENS).
template <class F>
DEVICE void matmul_packed(Dim3 block, const uint8_t* __restrict weight, const uint8_t* __restrict x,
                          float* __restrict y, const int32_t* __restrict tokens, int out, int blocks, int y_stride,
                          int accumulate) {
  const int first = block.y * PACKED_TOKENS, last = min_of(*tokens, first + PACKED_TOKENS);
  if (first >= last) return;
  SHARED(float, lanes, (ROWS * PACKED_TOKENS * LANE_STRIDE));
  const auto run = [&](auto count) {
    multiply<F, decltype(count)::value>(block, weight, x, y, first, last, out, blocks, y_stride, accumulate, lanes + 0);
  };
  if (last - first == 1) {
    run(Constant<1>{});
  } else if (last - first == 2) {
    run(Constant<2>{});
  } else if (last - first <= 4) {
    run(Constant<4>{});
  } else {
    run(Constant<PACKED_TOKENS>{});
  }
}
}  // namespace

#define MATMUL_PACKED(name, Format)                                                                             \
  KERNEL_RESIDENT(2, name, const uint8_t* __restrict weight,           /* [out, packed_row_bytes], Format */    \
                  const uint8_t* __restrict x,                         /* [tokens, in / 32, 40], see q8.h */    \
                  float* __restrict y,                                 /* [tokens, out], rows y_stride apart */ \
                  const int32_t* __restrict tokens,                    /* [1] */                                \
                  int out, int blocks, int y_stride, int accumulate) { /* 1: y += */                            \
    matmul_packed<forge::Format>(BLOCK_INDEX, weight, x, y, tokens, out, blocks, y_stride, accumulate);         \
  }

MATMUL_PACKED(matmul_packed_q4_0, PackedQ4_0)
MATMUL_PACKED(matmul_packed_q4_1, PackedQ4_1)
MATMUL_PACKED(matmul_packed_q5_0, PackedQ5_0)
MATMUL_PACKED(matmul_packed_q5_1, PackedQ5_1)
MATMUL_PACKED(matmul_packed_q8_0, PackedQ8_0)
MATMUL_PACKED(matmul_packed_q4_k, PackedQ4_K)
MATMUL_PACKED(matmul_packed_q5_k, PackedQ5_K)
MATMUL_PACKED(matmul_packed_q6_k, PackedQ6_K)
