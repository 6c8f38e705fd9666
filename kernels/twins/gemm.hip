// gemm: y[t][n] = sum_k weight[n][k] * x[t][k]
//
// The linear layer for many rows: a block owns a square of y and brings squares of x and weight through LDS. Each
// element is one sum over k in rising order, so a row's bits do not depend on how many rows there are.
#include "forge/contract.h"
#include "forge/device.h"

namespace {
using namespace forge;

constexpr int TILE = GEMM_TILE, DEPTH = 16;      // y's square; how much of k lies in LDS
constexpr int MICRO = 4, MICROS = TILE / MICRO;  // a thread's squares of y, MICROS * MICROS of them
constexpr int OWNED = MICROS * MICROS / BLOCK;   // how many a thread has
constexpr int PITCH = TILE + 4;                  // spreads a column of x or weight over the LDS banks

// Grid: x = ceil(out / TILE), y = ceil(tokens / TILE).
template <class W>
DEVICE void gemm(Dim3 block, const W* __restrict weight, const float* __restrict x, float* __restrict y,
                 const int32_t* __restrict tokens, int out, int in, int x_stride, int y_stride) {
  const int first_row = block.y * TILE, first_column = block.x * TILE, rows = *tokens;
  if (first_row >= rows) return;
  SHARED(float, x_tile, (DEPTH * PITCH));
  SHARED(float, w_tile, (DEPTH * PITCH));

  float sum[OWNED][MICRO][MICRO] = {};
  for (int first = 0; first < in; first += DEPTH) {
    for (int i = thread_id(); i < TILE * DEPTH; i += BLOCK) {
      const int r = i / DEPTH, k = i % DEPTH, row = first_row + r, column = first_column + r;
      // Elements outside count as 0.
      const bool inside = first + k < in;
      x_tile[k * PITCH + r] = inside && row < rows ? x[static_cast<size_t>(row) * x_stride + first + k] : 0.0f;
      w_tile[k * PITCH + r] =
          inside && column < out ? to_float(weight[static_cast<size_t>(column) * in + first + k]) : 0.0f;
    }
    block_sync();
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      const int micro = o * BLOCK + thread_id(), r0 = micro / MICROS * MICRO, c0 = micro % MICROS * MICRO;
      for (int k = 0; k < DEPTH; k++) {
        float a[MICRO], b[MICRO];
        UNROLL
        for (int i = 0; i < MICRO; i++) a[i] = x_tile[k * PITCH + r0 + i];
        UNROLL
        for (int i = 0; i < MICRO; i++) b[i] = w_tile[k * PITCH + c0 + i];
        UNROLL
        for (int i = 0; i < MICRO; i++) {
          UNROLL
          for (int j = 0; j < MICRO; j++) sum[o][i][j] = multiply_add(a[i], b[j], sum[o][i][j]);
        }
      }
    }
    block_sync();
  }

  UNROLL
  for (int o = 0; o < OWNED; o++) {
    const int micro = o * BLOCK + thread_id();
    UNROLL
    for (int i = 0; i < MICRO; i++) {
      UNROLL
      for (int j = 0; j < MICRO; j++) {
        const int row = first_row + micro / MICROS * MICRO + i, column = first_column + micro % MICROS * MICRO + j;
        if (row < rows && column < out) y[static_cast<size_t>(row) * y_stride + column] = sum[o][i][j];
      }
    }
  }
}
}  // namespace

#define GEMM(name, type)                                                               \
  KERNEL(name, const type* __restrict weight, /* [out, in] */                          \
         const float* __restrict x,           /* [tokens, in], rows x_stride apart */  \
         float* __restrict y,                 /* [tokens, out], rows y_stride apart */ \
         const int32_t* __restrict tokens,    /* [1] */                                \
         int out, int in, int x_stride, int y_stride) {                                \
    gemm(BLOCK_INDEX, weight, x, y, tokens, out, in, x_stride, y_stride);              \
  }

GEMM(gemm_f32, float)
GEMM(gemm_f16, forge::half_t)
GEMM(gemm_bf16, forge::bfloat_t)
