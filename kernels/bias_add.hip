// bias_add: y[t][n] += bias[n]
#include "forge/add.h"

// Grid: x = rows, y = ceil(out / SWIGLU_PART).
KERNEL(bias_add, float* __restrict y,  // [rows, out]
       const float* __restrict bias,   // [out]
       int out) {
  forge::add_part(BLOCK_INDEX.y, y + static_cast<size_t>(BLOCK_INDEX.x) * out, bias, out);
}
