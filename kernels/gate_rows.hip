// gate_rows: y[t] *= 1 / (1 + e^-gate[t])
#include "forge/device.h"

// One block a row.
KERNEL(gate_rows, float* __restrict y,  // [rows, columns]
       const float* __restrict gate,    // [rows]
       int columns) {
  const int row = BLOCK_INDEX.x;
  float* target = y + static_cast<size_t>(row) * columns;
  const float factor = 1.0f / (1.0f + forge::exp_of(-gate[row]));
  SIMD
  for (int i = forge::thread_id(); i < columns; i += BLOCK) target[i] *= factor;
}
