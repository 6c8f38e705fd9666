// sigmoid_gate: y *= 1 / (1 + e^-gate), element by element
#include "forge/device.h"

// One block a row.
KERNEL(sigmoid_gate, float* __restrict y,  // [rows, columns]
       const float* __restrict gate,       // [rows, columns]
       int columns) {
  const size_t start = static_cast<size_t>(BLOCK_INDEX.x) * columns;
  SIMD
  for (int i = forge::thread_id(); i < columns; i += BLOCK) y[start + i] /= 1.0f + forge::exp_of(-gate[start + i]);
}
