// relu_squared: y = max(y, 0)²; So et al., "Primer" (2021)
#include "forge/contract.h"
#include "forge/device.h"

// Grid: x = rows, y = ceil(columns / SWIGLU_PART).
KERNEL(relu_squared, float* __restrict y,  // [rows, columns]
       int columns) {
  float* row = y + static_cast<size_t>(BLOCK_INDEX.x) * columns;
  const int first = BLOCK_INDEX.y * forge::SWIGLU_PART, end = forge::min_of(columns, first + forge::SWIGLU_PART);
  SIMD
  for (int i = first + forge::thread_id(); i < end; i += BLOCK) {
    // A NaN stays one.
    const float value = row[i] < 0.0f ? 0.0f : row[i];
    row[i] = value * value;
  }
}
