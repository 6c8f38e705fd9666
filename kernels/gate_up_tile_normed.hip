// gate_up_tile_normed: y = silu(gate · norm(x)) * (up · norm(x)) of one row, in 16 bits
//
// rms_norm_convert, matmul_tile and swiglu_convert in one launch, to the bit. Whoever wrote x left the sums of its
// squares.
#include "forge/normed_tile.h"

namespace {
using namespace forge;

template <class T, class Lds>
struct GateUpNormed {
  using Element = T;
  static constexpr int PARTS = 2;
  const T* weight;
  NormedTile<T, Lds> row;
  T* y;
  int out, in;
};
template <class T, class Lds>
DEVICE int token_count(const GateUpNormed<T, Lds>&) {
  return 1;
}
template <class T, class Lds>
DEVICE void bring_inputs(const GateUpNormed<T, Lds>& job) {
  normalize_tile(job.row, job.in);
}
template <int TOKENS, class T, class Lds>
DEVICE NormedChunk<Lds> first_tokens(const GateUpNormed<T, Lds>& job, int, int, int first) {
  return {job.row.pieces, first * TILE_DEPTH};
}
template <class T, class Lds>
DEVICE void finish(const GateUpNormed<T, Lds>& job, int, int n, const float (&sums)[2]) {
  store(job.y + n, silu(sums[0]) * sums[1]);
}
template <class T, class Lds>
DEVICE void gate_up_tile_normed(int block, const T* weight, const NormInput& input, T* y, int ffn, int in, Lds pieces) {
  linear_few<2, 1, 16>(GateUpNormed<T, Lds>{weight, {pieces, input}, y, ffn, in}, block * TILE_FEW_ROWS, 0);
}
}  // namespace

// Grid: x = ceil(ffn / TILE_FEW_ROWS).
#define GATE_UP_TILE_NORMED(suffix, type)                                                                            \
  KERNEL_RESIDENT(1, gate_up_tile_normed_##suffix, const type* __restrict weight, /* [2, ffn, in]: gate, up */       \
                  const float* __restrict x,                                      /* [in] */                         \
                  const float* __restrict norm,                                   /* [in] */                         \
                  const float* __restrict parts,                                  /* [in / NORM_PART], see norm.h */ \
                  type* __restrict y,                                             /* [ffn] */                        \
                  int ffn, int in, float eps) {                                                                      \
    SHARED(forge::Piece, row, (NORMED_MOST / PIECE));                                                                \
    gate_up_tile_normed(BLOCK_INDEX_AHEAD.x, weight, NormInput{x, norm, parts, eps}, y, ffn, in, row + 0);           \
  }

GATE_UP_TILE_NORMED(f16, forge::half_t)
GATE_UP_TILE_NORMED(bf16, forge::bfloat_t)
