// residual_add: x += y, for each row
#include "forge/add.h"

// Grid: x = rows, y = ceil(hidden / SWIGLU_PART).
KERNEL(residual_add, float* __restrict x,  // [rows, hidden]
       const float* __restrict y,          // [rows, hidden]
       int hidden) {
  const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  forge::add_part(BLOCK_INDEX.y, x + row, y + row, hidden);
}
