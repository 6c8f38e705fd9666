// heads_first: y[h][t] = the first columns of x[t][h], so that each head's rows follow each other
#include "forge/device.h"

// Grid: x = heads, y = rows.
KERNEL(heads_first, const float* __restrict x,  // [rows, heads, width]
       float* __restrict y,                     // [heads, tokens, columns]
       const int32_t* __restrict tokens,        // [1]
       int heads, int width, int columns) {
  using namespace forge;
  const int head = BLOCK_INDEX.x, row = BLOCK_INDEX.y;
  const float* from = x + (static_cast<size_t>(row) * heads + head) * width;
  float* to = y + (static_cast<size_t>(head) * *tokens + row) * columns;
  for (int i = thread_id(); i < columns; i += BLOCK) to[i] = from[i];
}
