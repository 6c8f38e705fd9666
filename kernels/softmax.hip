// softmax: y = e^(x - max x) / sum e^(x - max x), for each row
//
// A row of nothing but -inf, masked from end to end, gives 0.
#include "forge/reduce.h"

namespace {
using namespace forge;

// One block a row. y may be x: a thread reads and writes its own elements.
template <class T>
DEVICE void softmax(int row, const T* x, T* y, int columns) {
  const T* in = x + static_cast<size_t>(row) * columns;
  T* out = y + static_cast<size_t>(row) * columns;

  float largest = LOWEST;
  SIMD_MAX(largest)
  for (int i = thread_id(); i < columns; i += BLOCK) largest = max_of(largest, to_float(in[i]));
  largest = block_max(largest);

  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < columns; i += BLOCK) sum += exp_of(to_float(in[i]) - largest);
  sum = block_sum(sum);
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;

  SIMD
  for (int i = thread_id(); i < columns; i += BLOCK) store(out + i, exp_of(to_float(in[i]) - largest) * inverse);
}
}  // namespace

KERNEL(softmax_f32, const float* x,  // [rows, columns]
       float* y,                     // [rows, columns]; may be x
       int columns) {
  softmax(BLOCK_INDEX.x, x, y, columns);
}

KERNEL(softmax_f16, const forge::half_t* x, forge::half_t* y, int columns) { softmax(BLOCK_INDEX.x, x, y, columns); }
