// The gate and up projections on matrix units in one launch, and SwiGLU of them. Each dot product is that of
// matmul_tile, whose forms these are.
#pragma once

#include "linear_many.h"

namespace forge {

template <class T>
struct GateUp {
  using Element = T;
  static constexpr int PARTS = 2;
  const T *weight, *x;
  T* y;
  const int32_t* tokens;
  int out, in;
};
template <class T>
DEVICE void finish(const GateUp<T>& job, int t, int n, const float (&sums)[2]) {
  store(job.y + static_cast<size_t>(t) * job.out + n, silu(sums[0]) * sums[1]);
}

}  // namespace forge

// Grid: x = ceil(tokens / columns), y = ceil(ffn / rows): blocks that share weights run at one time.
#define GATE_UP_SWIGLU_TILE(name, resident, type, body, rows, columns)                            \
  KERNEL_RESIDENT(resident, name, const type* __restrict weight, /* [2, ffn, hidden]: gate, up */ \
                  const type* __restrict x,                      /* [tokens, hidden] */           \
                  type* __restrict y,                            /* [tokens, ffn] */              \
                  const int32_t* __restrict tokens,              /* [1] */                        \
                  int ffn, int hidden) {                                                          \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                                  \
    body(GateUp<type>{weight, x, y, tokens, ffn, hidden}, block.y*(rows), block.x*(columns));     \
  }
