// gather_rows: y[s] = x[index[s]]
//
// Picks the rows whose logits are wanted, so that the output projection runs for them alone.
#include "forge/device.h"

// One block a row of y.
KERNEL(gather_rows, const float* __restrict x,  // [tokens, hidden]
       float* __restrict y,                     // [samples, hidden]
       const int32_t* __restrict index,         // [samples], each below tokens
       int hidden) {
  const int row = BLOCK_INDEX.x;
  const float* source = x + static_cast<size_t>(index[row]) * hidden;
  float* target = y + static_cast<size_t>(row) * hidden;
  for (int i = forge::thread_id(); i < hidden; i += BLOCK) target[i] = source[i];
}
