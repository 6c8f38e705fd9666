// scale: x *= factor
#include "forge/device.h"

namespace {
using namespace forge;

// One block a row.
template <class T>
DEVICE void scale(int row, T* __restrict x, int columns, float factor) {
  T* target = x + static_cast<size_t>(row) * columns;
  SIMD
  for (int i = thread_id(); i < columns; i += BLOCK) store(target + i, to_float(target[i]) * factor);
}
}  // namespace

KERNEL(scale_f32, float* __restrict x,  // [rows, columns]
       int columns, float factor) {
  scale(BLOCK_INDEX.x, x, columns, factor);
}

KERNEL(scale_f16, forge::half_t* __restrict x, int columns, float factor) { scale(BLOCK_INDEX.x, x, columns, factor); }
