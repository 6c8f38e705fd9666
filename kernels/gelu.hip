// gelu: y = gelu(y) in its form with tanh; Hendrycks & Gimpel (2016)
#include "forge/swiglu.h"

// Grid: x = rows, y = ceil(columns / SWIGLU_PART).
KERNEL(gelu, float* __restrict y,  // [rows, columns]
       int columns) {
  float* row = y + static_cast<size_t>(BLOCK_INDEX.x) * columns;
  const int first = BLOCK_INDEX.y * forge::SWIGLU_PART, end = forge::min_of(columns, first + forge::SWIGLU_PART);
  SIMD
  for (int i = first + forge::thread_id(); i < end; i += BLOCK) row[i] = forge::gelu(row[i]);
}
