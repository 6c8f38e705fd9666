// matmul_normed: y[n] = sum_k weight[n][k] * norm(x)[k] of one row, weight as repack makes it
//
// rms_norm_quantize and matmul_packed in one launch, to the bit. Whoever wrote x left the sums of its squares.
#include "forge/normed.h"

// Grid: x = ceil(out / BLOCK_ROWS).
#define MATMUL_NORMED(type, Name)                                                                               \
  KERNEL_RESIDENT(4, matmul_normed_##type, const uint8_t* __restrict weight, /* [out, packed_row_bytes] */      \
                  const float* __restrict x,                                 /* [in] */                         \
                  const float* __restrict norm,                              /* [in] */                         \
                  const float* __restrict parts,                             /* [in / NORM_PART], see norm.h */ \
                  float* __restrict y,                                       /* [out] */                        \
                  int out, int blocks, float eps) {                                                             \
    using namespace forge;                                                                                      \
    SHARED(float, lanes, (BLOCK_ROWS * LANE_STRIDE));                                                           \
    NORMED_ROW(row);                                                                                            \
    multiply_normed<Packed##Name>(BLOCK_INDEX_AHEAD.x, weight, NormInput{x, norm, parts, eps}, nullptr, y, out, \
                                  blocks, lanes + 0, row);                                                      \
  }

FORGE_PACKED_FORMATS(MATMUL_NORMED)
