// bias_add: y[t][n] += bias[n]
#include "forge/device.h"

// One block a row.
KERNEL(bias_add, float* __restrict y,  // [rows, out]
       const float* __restrict bias,   // [out]
       int out) {
  float* target = y + static_cast<size_t>(BLOCK_INDEX.x) * out;
  SIMD
  for (int i = forge::thread_id(); i < out; i += BLOCK) target[i] += bias[i];
}
