// short_conv: y = c * sum_j weight[j] * (b * x)[t - taps + 1 + j]: a gated convolution of a few rows
//
// Products before a slice are those that the one before it kept, and those of replay rows after them.
#include "forge/contract.h"
#include "forge/delta.h"

// Grid: x = ceil(columns / SHORT_CONV_PART), y = rows.
KERNEL(short_conv, const float* __restrict gates,  // [rows, 3, columns]: b, c and x
       const float* __restrict weight,             // [columns, taps]
       float* __restrict kept,                     // [states, taps - 1, columns]: products before a slice, in order
       const float* __restrict replay,             // [replay_rows, columns]: products of rows with draft tokens
       const int32_t* __restrict row_slice,        // [rows]
       const int32_t* __restrict slices,           // [slices, SLICE_WORDS]
       float* __restrict y,                        // [rows, columns]
       int columns, int taps) {
  using namespace forge;
  const int row = BLOCK_INDEX.y, first = BLOCK_INDEX.x * SHORT_CONV_PART, before = taps - 1;
  const int end = min_of(columns, first + SHORT_CONV_PART);
  const StateSlice slice = state_slice(slices, row_slice[row]);
  const float* old = kept + static_cast<size_t>(max_of(slice.source, 0)) * before * columns;
  // A product of the slice's row `place`, counted from its first; before it one of a replay row, and before those one
  // that was kept. Absent ones are zero.
  const auto at = [&](int place, int i) {
    const int back = place + slice.replayed;
    if (back < 0) return slice.source == NO_STATE ? 0.0f : old[static_cast<size_t>(before + back) * columns + i];
    if (place < 0) return replay[static_cast<size_t>(slice.replay_row + back) * columns + i];
    const float* own = gates + static_cast<size_t>(slice.first + place) * 3 * columns;
    return own[i] * own[2 * columns + i];
  };

  const int here = row - slice.first;
  const float* gate = gates + (static_cast<size_t>(row) * 3 + 1) * columns;
  float* out = y + static_cast<size_t>(row) * columns;
  for (int i = first + thread_id(); i < end; i += BLOCK) {
    float sum = 0.0f;
    for (int j = 0; j < taps; j++)
      sum = multiply_add(at(here - before + j, i), weight[static_cast<size_t>(i) * taps + j], sum);
    out[i] = gate[i] * sum;
  }

  if (here != slice.rows - 1 || slice.target == NO_STATE) return;
  float* next = kept + static_cast<size_t>(slice.target) * before * columns;
  for (int j = 0; j < before; j++) {
    for (int i = first + thread_id(); i < end; i += BLOCK)
      next[static_cast<size_t>(j) * columns + i] = at(slice.stored - before + j, i);
  }
}
