// gelu_gate: y = gelu(y) * x, gelu in its form with tanh
#include "forge/device.h"

// One block a row.
KERNEL(gelu_gate, float* __restrict y,  // [rows, columns]
       const float* __restrict x,       // [rows, columns], x_stride apart
       int columns, int x_stride) {
  float* gate = y + static_cast<size_t>(BLOCK_INDEX.x) * columns;
  const float* factor = x + static_cast<size_t>(BLOCK_INDEX.x) * x_stride;
  SIMD
  for (int i = forge::thread_id(); i < columns; i += BLOCK) gate[i] = forge::gelu(gate[i]) * factor[i];
}
