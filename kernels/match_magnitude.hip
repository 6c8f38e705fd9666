// match_magnitude: y[t] *= |x[t]| / |y[t]|, the lengths of rows; a row of zeros stays
#include "forge/reduce.h"

namespace {
using namespace forge;

DEVICE float sum_of_squares(const float* row, int columns) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < columns; i += BLOCK) sum += row[i] * row[i];
  return block_sum(sum);
}
}  // namespace

// One block a row.
KERNEL(match_magnitude, float* __restrict y,  // [rows, columns]
       const float* __restrict x,             // [rows, columns]
       int columns) {
  const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * columns;
  float* own = y + row;
  const float wanted = sum_of_squares(x + row, columns), is = sum_of_squares(own, columns);
  const float factor = is == 0.0f ? 0.0f : sqrt_of(wanted) / sqrt_of(is);
  SIMD
  for (int i = thread_id(); i < columns; i += BLOCK) own[i] *= factor;
}
