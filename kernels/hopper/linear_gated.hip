// linear_gated: y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t]), for many tokens: the products of linear and SwiGLU in
// one
//
// In the columns that the next product takes; the very bits of linear and swiglu_columns.
#include "forge/hopper/linear_hopper.h"
#include "forge/hopper/to_columns.h"

namespace {
using namespace forge;

template <class T>
struct Gated {
  const uint8_t* weight;
  const T* x;
  T* y;
  const int32_t* tokens;
  int32_t* saturated;
  int tiles, out, in, x_rows;
};
template <class T>
DEVICE void finish(const Gated<T>& job, int t, int n, float gated) {
  store_column(job.y + column_place(t, n, job.x_rows), gated, job.saturated);
}
}  // namespace

// Grid: x = ceil(tokens / 128), y = ceil(ffn / 64).
#define LINEAR_GATED(suffix, Format, type)                                                 \
  KERNEL_OF(forge::WIDE_BLOCK, 1, linear_gated_##suffix,                                   \
            const uint8_t* __restrict weight, /* [2, tiles, chunks, 4, bytes]: gate, up */ \
            const type* __restrict x,         /* [chunks, x_rows, CHUNK] */                \
            type* __restrict y,               /* [ffn_chunks, x_rows, CHUNK] */            \
            const int32_t* __restrict tokens, /* [1] */                                    \
            int32_t* __restrict saturated,    /* [1] */                                    \
            int tiles, int ffn, int hidden, int x_rows) {                                  \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                           \
    const Gated<type> job{weight, x, y, tokens, saturated, tiles, ffn, hidden, x_rows};    \
    linear_wide<Format, 128, Sharing::GATED>(job, block.y, block.x * 128);                 \
  }

LINEAR_GATED(f16, Floats<half_t>, half_t)
LINEAR_GATED(bf16, Floats<bfloat_t>, bfloat_t)
LINEAR_GATED(q2, Quant2, half_t)
LINEAR_GATED(q3, Quant3, half_t)
LINEAR_GATED(q4, Quant4, half_t)
LINEAR_GATED(q5, Quant5, half_t)
LINEAR_GATED(q6, Quant6, half_t)
LINEAR_GATED(q8, Quant8, half_t)
LINEAR_GATED(iq4, Levels4, half_t)
