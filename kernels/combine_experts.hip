// combine_experts: x[t] = sum_i weights[t][i] * y[place_of[t][i]]
//
// In the order in which a row has its experts: that of their ids.
#include "forge/device.h"

// One block a row; those that only fill a graph are left as they are.
KERNEL(combine_experts, const float* __restrict y,  // [places, hidden]
       const int32_t* __restrict place_of,          // [rows, used]
       const float* __restrict weights,             // [rows, used]
       float* __restrict x,                         // [rows, hidden]
       const int32_t* __restrict tokens,            // [1]
       int hidden, int used) {
  using namespace forge;
  const int row = BLOCK_INDEX.x;
  if (row >= *tokens) return;
  float* target = x + static_cast<size_t>(row) * hidden;
  for (int i = 0; i < used; i++) {
    const float weight = weights[row * used + i];
    const float* source = y + static_cast<size_t>(place_of[row * used + i]) * hidden;
    if (i == 0) {
      SIMD
      for (int n = thread_id(); n < hidden; n += BLOCK) target[n] = weight * source[n];
    } else {
      SIMD
      for (int n = thread_id(); n < hidden; n += BLOCK) target[n] = multiply_add(weight, source[n], target[n]);
    }
  }
}
