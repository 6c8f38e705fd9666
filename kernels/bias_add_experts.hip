// bias_add_experts: y[place_of[t][i]][n] += bias[ids[t][i]][n]
#include "forge/add.h"

// Grid: x = rows and experts of each, y = ceil(out / SWIGLU_PART).
KERNEL(bias_add_experts, float* __restrict y,  // [places, out], rows y_stride apart
       const float* __restrict bias,           // [experts, out]
       const int32_t* __restrict ids,          // [rows, used]
       const int32_t* __restrict place_of,     // [rows, used]
       const int32_t* __restrict tokens,       // [1]
       int out, int y_stride, int used) {
  const int pair = BLOCK_INDEX.x;
  if (pair / used >= *tokens) return;
  float* target = y + static_cast<size_t>(place_of[pair]) * y_stride;
  const float* source = bias + static_cast<size_t>(ids[pair]) * out;
  forge::add_part(BLOCK_INDEX.y, target, source, out);
}
