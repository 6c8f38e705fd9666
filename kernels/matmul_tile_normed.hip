// matmul_tile_normed: y[n] = sum_k weight[n][k] * norm(x)[k], with a bias, of one row, in 16 bits
//
// rms_norm_convert, matmul_tile and bias_add in one launch, to the bit. Whoever wrote x left the sums of its squares.
#include "forge/normed_tile.h"

namespace {
using namespace forge;

template <class T, class Lds>
struct Normed {
  using Element = T;
  static constexpr int PARTS = 1;
  const T* weight;
  NormedTile<T, Lds> row;
  const float* bias;  // null: none
  float* y;
  int out, in;
};
template <class T, class Lds>
DEVICE int token_count(const Normed<T, Lds>&) {
  return 1;
}
template <class T, class Lds>
DEVICE void bring_inputs(const Normed<T, Lds>& job) {
  normalize_tile(job.row, job.in);
}
template <int TOKENS, class T, class Lds>
DEVICE NormedChunk<Lds> first_tokens(const Normed<T, Lds>& job, int, int, int first) {
  return {job.row.pieces, first * TILE_DEPTH};
}
template <class T, class Lds>
DEVICE void finish(const Normed<T, Lds>& job, int, int n, const float (&sums)[1]) {
  job.y[n] = job.bias ? sums[0] + job.bias[n] : sums[0];
}
template <class T, class Lds>
DEVICE void matmul_tile_normed(int block, const T* weight, const NormInput& input, const float* bias, float* y, int out,
                               int in, Lds pieces) {
  linear_few<1, 1, 8>(Normed<T, Lds>{weight, {pieces, input}, bias, y, out, in}, block * TILE_FEW_ROWS, 0);
}
}  // namespace

// Grid: x = ceil(out / TILE_FEW_ROWS).
#define MATMUL_TILE_NORMED(suffix, type)                                                                             \
  KERNEL_RESIDENT(1, matmul_tile_normed_##suffix, const type* __restrict weight, /* [out, in] */                     \
                  const float* __restrict x,                                     /* [in] */                          \
                  const float* __restrict norm,                                  /* [in] */                          \
                  const float* __restrict parts,                                 /* [in / NORM_PART], see norm.h */  \
                  const float* __restrict bias,                                  /* [out], where biased is 1 */      \
                  float* __restrict y,                                           /* [out] */                         \
                  int out, int in, int biased, float eps) {                                                          \
    SHARED(forge::Piece, row, (NORMED_MOST / PIECE));                                                                \
    matmul_tile_normed(BLOCK_INDEX_AHEAD.x, weight, NormInput{x, norm, parts, eps}, biased ? bias : nullptr, y, out, \
                       in, row + 0);                                                                                 \
  }

MATMUL_TILE_NORMED(f16, forge::half_t)
MATMUL_TILE_NORMED(bf16, forge::bfloat_t)
