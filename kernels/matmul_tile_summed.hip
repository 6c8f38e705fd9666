// matmul_tile_summed: y[n] += sum_k weight[n][k] * x[k] of one row in 16 bits, and the sums of the squares of what y
// became
//
// matmul_tile, to the bit. The sums are those that the row's norm begins with: norm.h.
#include "forge/linear_tile.h"
#include "forge/norm.h"

namespace {
using namespace forge;
static_assert(TILE_FEW_ROWS == NORM_PART, "a block writes one part");

template <class T, class Lds>
struct Summed {
  using Element = T;
  static constexpr int PARTS = 1;
  const T *weight, *x;
  float *y, *parts;
  int out, in;
  Lds results;  // of the block's rows
};
template <class T, class Lds>
DEVICE int token_count(const Summed<T, Lds>&) {
  return 1;
}
template <class T, class Lds>
DEVICE void finish(const Summed<T, Lds>& job, int, int n, const float (&sums)[1]) {
  const float became = job.y[n] + sums[0];
  job.y[n] = became;
  job.results[n % TILE_FEW_ROWS] = became;
}
template <class T, class Lds>
DEVICE void end_block(const Summed<T, Lds>& job, int first_n) {
  if (wave_id() > 0) return;
  const float part = sum_of_squares([&](int i) -> float {
    if (first_n + i >= job.out) return 0.0f;
    return job.results[i];
  });
  if (lane_id() == 0) job.parts[first_n / NORM_PART] = part;
}
template <class T, class Lds>
DEVICE void matmul_tile_summed(int block, const T* weight, const T* x, float* y, float* parts, int out, int in,
                               Lds results) {
  linear_few<1, 1, 8>(Summed<T, Lds>{weight, x, y, parts, out, in, results}, block * TILE_FEW_ROWS, 0);
}
}  // namespace

// Grid: x = ceil(out / TILE_FEW_ROWS).
#define MATMUL_TILE_SUMMED(suffix, type)                                                                       \
  KERNEL_RESIDENT(1, matmul_tile_summed_##suffix, const type* __restrict weight, /* [out, in] */               \
                  const type* __restrict x,                                      /* [in] */                    \
                  float* __restrict y,                                           /* [out] */                   \
                  float* __restrict parts,                                       /* [ceil(out / NORM_PART)] */ \
                  int out, int in) {                                                                           \
    SHARED(float, results, TILE_FEW_ROWS);                                                                     \
    matmul_tile_summed(BLOCK_INDEX_AHEAD.x, weight, x, y, parts, out, in, results + 0);                        \
  }

MATMUL_TILE_SUMMED(f16, forge::half_t)
MATMUL_TILE_SUMMED(bf16, forge::bfloat_t)
