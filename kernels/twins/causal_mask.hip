// causal_mask: scores[r][h][c] = value for each column c > r + past
//
// The rows are consecutive positions, of which `past` came before; mask takes rows at any position.
#include "forge/device.h"

namespace {
using namespace forge;

// Grid: x = heads, y = rows.
template <class T>
DEVICE void causal_mask(Dim3 block, T* __restrict scores, int heads, int columns, int past, float value) {
  T* row = scores + (static_cast<size_t>(block.y) * heads + block.x) * columns;
  for (int c = block.y + past + 1 + thread_id(); c < columns; c += BLOCK) store(row + c, value);
}
}  // namespace

KERNEL(causal_mask_f32, float* __restrict scores,  // [rows, heads, columns]
       int heads, int columns, int past, float value) {
  causal_mask(BLOCK_INDEX, scores, heads, columns, past, value);
}

KERNEL(causal_mask_f16, forge::half_t* __restrict scores, int heads, int columns, int past, float value) {
  causal_mask(BLOCK_INDEX, scores, heads, columns, past, value);
}
