// join_rows: y[r] = [a[r], b[r]]
#include "forge/device.h"

// One block a row.
KERNEL(join_rows, const float* __restrict a,  // [rows, columns]
       const float* __restrict b,             // [rows, columns]
       float* __restrict y,                   // [rows, 2, columns]
       int columns) {
  const size_t from = static_cast<size_t>(BLOCK_INDEX.x) * columns, to = 2 * from;
  for (int i = forge::thread_id(); i < columns; i += BLOCK) {
    y[to + i] = a[from + i];
    y[to + columns + i] = b[from + i];
  }
}
