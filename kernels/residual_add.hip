// residual_add: x += y, for each row
#include "forge/device.h"

// One block a row.
KERNEL(residual_add, float* __restrict x,  // [rows, hidden]
       const float* __restrict y,          // [rows, hidden]
       int hidden) {
  float* target = x + static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  const float* source = y + static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  SIMD
  for (int i = forge::thread_id(); i < hidden; i += BLOCK) target[i] += source[i];
}
