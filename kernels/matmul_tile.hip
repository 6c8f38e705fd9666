// matmul_tile: y[t][n] = sum_k weight[n][k] * x[t][k], or that added to y
//
// The linear layer of 16-bit weights on matrix units, x in the weights' type. Three forms by the number of tokens, with
// the same bits: an element depends on its row of the weight, its row of x and their length alone.
#include "forge/experts.h"
#include "forge/linear_many.h"

namespace {
using namespace forge;

template <class T>
struct Linear {
  using Element = T;
  static constexpr int PARTS = 1;
  const T *weight, *x;
  float* y;
  const int32_t* tokens;
  int out, in, y_stride, accumulate;
};
template <class T>
DEVICE void finish(const Linear<T>& job, int t, int n, const float (&sums)[1]) {
  float* y = job.y + static_cast<size_t>(t) * job.y_stride + n;
  *y = job.accumulate ? *y + sums[0] : sums[0];
}
}  // namespace

// Grid: x = ceil(tokens / columns), y = ceil(out / rows): blocks that share weights run at one time.
#define MATMUL_TILE(name, resident, type, body, rows, columns)                                                  \
  KERNEL_RESIDENT(resident, name, const type* __restrict weight, /* [out, in] */                                \
                  const type* __restrict x,                      /* [tokens, in] */                             \
                  float* __restrict y,                           /* [tokens, out], rows y_stride apart */       \
                  const int32_t* __restrict tokens,              /* [1] */                                      \
                  int out, int in, int y_stride, int accumulate) {                                              \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                                                \
    body(Linear<type>{weight, x, y, tokens, out, in, y_stride, accumulate}, block.y*(rows), block.x*(columns)); \
  }
#define MATMUL_TILES(suffix, type)                                                                         \
  MATMUL_TILE(matmul_tile_few_##suffix, 1, type, (linear_few<1, 1, 8>), TILE_FEW_ROWS, TILE_FEW_TOKENS)    \
  MATMUL_TILE(matmul_tile_some_##suffix, 1, type, (linear_few<2, 4, 4>), TILE_SOME_ROWS, TILE_SOME_TOKENS) \
  MATMUL_TILE(matmul_tile_##suffix, FETCH_BLOCKS, type, linear_many, MANY_ROWS, MANY_TOKENS)

MATMUL_TILES(f16, forge::half_t)
MATMUL_TILES(bf16, forge::bfloat_t)

// Product of each expert's matrix and its run of rows. Grid: as above, z = experts.
#define MATMUL_EXPERTS(name, resident, type, body, rows, columns)                                                   \
  KERNEL_RESIDENT(resident, name, const type* __restrict weight, /* [experts, out, in] */                           \
                  const type* __restrict x,                      /* [places, in] */                                 \
                  float* __restrict y,                           /* [places, out], rows y_stride apart */           \
                  const int32_t* __restrict runs,                /* [experts, 3], see experts.h */                  \
                  int out, int in, int y_stride) {                                                                  \
    const forge::Dim3 block = BLOCK_INDEX;                                                                          \
    const forge::Run run = forge::run_at(runs, block.z);                                                            \
    if (block.x * (columns) >= run.count) return;                                                                   \
    body(Linear<type>{weight + static_cast<size_t>(run.expert) * out * in, x + static_cast<size_t>(run.first) * in, \
                      y + static_cast<size_t>(run.first) * y_stride, forge::run_count(runs, block.z), out, in,      \
                      y_stride, 0},                                                                                 \
         block.y*(rows), block.x*(columns));                                                                        \
  }
#define MATMUL_EXPERTS_TILES(suffix, type)                                                                            \
  MATMUL_EXPERTS(matmul_tile_experts_few_##suffix, 1, type, (linear_few<1, 1, 8>), TILE_FEW_ROWS, TILE_FEW_TOKENS)    \
  MATMUL_EXPERTS(matmul_tile_experts_some_##suffix, 1, type, (linear_few<2, 4, 4>), TILE_SOME_ROWS, TILE_SOME_TOKENS) \
  MATMUL_EXPERTS(matmul_tile_experts_##suffix, FETCH_BLOCKS, type, linear_many, MANY_ROWS, MANY_TOKENS)

MATMUL_EXPERTS_TILES(f16, forge::half_t)
MATMUL_EXPERTS_TILES(bf16, forge::bfloat_t)
