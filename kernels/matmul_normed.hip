// matmul_normed: y[n] = sum_k weight[n][k] * norm(x)[k] of one row, weight as repack makes it
//
// rms_norm_quantize and matmul_packed in one launch, to the bit. Whoever wrote x left the sums of its squares.
#include "forge/normed.h"

namespace {
using namespace forge;

// Grid: x = ceil(out / BLOCK_ROWS).
template <class F>
DEVICE void matmul_normed(int block, const uint8_t* __restrict weight, const NormInput& input, float* __restrict y,
                          int out, int blocks) {
  SHARED(float, lanes, (BLOCK_ROWS * LANE_STRIDE));
  NORMED_ROW(row);
  const int first = block * BLOCK_ROWS;
  const uint8_t* rows[ROWS_ALONE];
  rows_from<F>(rows, weight, first + wave_id() * ROWS_ALONE, out, blocks);
  const auto begun = load_first<F>(rows, blocks);
  wait_for_inputs();
  normalize_row(row, input, blocks);
  multiply_rows<F, 1>(first, begun, weight, row, out, blocks, lanes + 0);
  for (int i = thread_id(); i < BLOCK_ROWS; i += BLOCK) {
    if (first + i < out) y[first + i] = sum_in_order(lanes, i);
  }
}
}  // namespace

#define MATMUL_NORMED(type, Name)                                                                                    \
  KERNEL_RESIDENT(4, matmul_normed_##type, const uint8_t* __restrict weight, /* [out, packed_row_bytes] */           \
                  const float* __restrict x,                                 /* [in] */                              \
                  const float* __restrict norm,                              /* [in] */                              \
                  const float* __restrict parts,                             /* [in / NORM_PART], see norm.h */      \
                  float* __restrict y,                                       /* [out] */                             \
                  int out, int blocks, float eps) {                                                                  \
    matmul_normed<forge::Packed##Name>(BLOCK_INDEX_AHEAD.x, weight, NormInput{x, norm, parts, eps}, y, out, blocks); \
  }

FORGE_PACKED_FORMATS(MATMUL_NORMED)
