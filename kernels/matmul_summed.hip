// matmul_summed: y[n] += sum_k weight[n][k] * x[k] of one row, and the sums of the squares of what y became
//
// matmul_packed, to the bit. The sums are those that the row's norm begins with: norm.h.
#include "forge/norm.h"
#include "forge/packed_dot.h"

namespace {
using namespace forge;
static_assert(BLOCK_ROWS == NORM_PART, "a block writes one part");

// Grid: x = ceil(out / BLOCK_ROWS).
template <class F>
DEVICE void matmul_summed(int block, const uint8_t* __restrict weight, const uint8_t* __restrict x, float* __restrict y,
                          float* __restrict parts, int out, int blocks) {
  SHARED(float, lanes, (BLOCK_ROWS * LANE_STRIDE));
  const int first = block * BLOCK_ROWS;
  const uint8_t* rows[ROWS_ALONE];
  rows_from<F>(rows, weight, first + wave_id() * ROWS_ALONE, out, blocks);
  const auto begun = load_first<F>(rows, blocks);
  wait_for_inputs();
  multiply_rows<F, 1>(first, begun, weight, InputRows<1>{x, {0}}, out, blocks, lanes + 0);
  if (wave_id() > 0) return;
  const float part = sum_of_squares([&](int i) {
    const int n = first + i;
    return n < out ? y[n] += sum_in_order(lanes, i) : 0.0f;
  });
  if (lane_id() == 0) parts[block] = part;
}
}  // namespace

#define MATMUL_SUMMED(type, Name)                                                                          \
  KERNEL_RESIDENT(4, matmul_summed_##type, const uint8_t* __restrict weight, /* [out, packed_row_bytes] */ \
                  const uint8_t* __restrict x,                               /* [in / 32, 40], see q8.h */ \
                  float* __restrict y,                                       /* [out] */                   \
                  float* __restrict parts,                                   /* [ceil(out / NORM_PART)] */ \
                  int out, int blocks) {                                                                   \
    matmul_summed<forge::Packed##Name>(BLOCK_INDEX_AHEAD.x, weight, x, y, parts, out, blocks);             \
  }

FORGE_PACKED_FORMATS(MATMUL_SUMMED)
