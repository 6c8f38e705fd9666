// keep_conv_rows: replay[index[i, 1]] = b * x of row index[i, 0] of a gated short convolution
//
// Rows with draft tokens: the next slice of their slot replays those that are accepted; see forge/delta.h.
#include "forge/contract.h"
#include "forge/device.h"

// Grid: x = ceil(columns / REPLAY_PART), y = kept.
KERNEL(keep_conv_rows, const float* __restrict gates,  // [rows, 3, columns]: b, c and x
       const int32_t* __restrict index,                // [kept, 2]: a row, and its replay row; each of those once
       float* __restrict replay,                       // [replay_rows, columns]
       int columns) {
  using namespace forge;
  const size_t row = index[2 * BLOCK_INDEX.y], to = index[2 * BLOCK_INDEX.y + 1];
  const int first = BLOCK_INDEX.x * REPLAY_PART, end = min_of(columns, first + REPLAY_PART);
  const float* own = gates + row * 3 * columns;
  for (int i = first + thread_id(); i < end; i += BLOCK) replay[to * columns + i] = own[i] * own[2 * columns + i];
}
