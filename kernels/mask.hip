// mask: scores[r][h][c] = value for each column c past the row's position
#include "forge/device.h"

namespace {
using namespace forge;

// Grid: x = heads, y = rows.
template <class T>
DEVICE void mask(Dim3 block, T* __restrict scores, const int32_t* __restrict row_position, int heads, int columns,
                 float value) {
  T* row = scores + (static_cast<size_t>(block.y) * heads + block.x) * columns;
  for (int c = row_position[block.y] + 1 + thread_id(); c < columns; c += BLOCK) store(row + c, value);
}
}  // namespace

KERNEL(mask_f32, float* __restrict scores,      // [rows, heads, columns]
       const int32_t* __restrict row_position,  // [rows]
       int heads, int columns, float value) {
  mask(BLOCK_INDEX, scores, row_position, heads, columns, value);
}

KERNEL(mask_f16, forge::half_t* __restrict scores, const int32_t* __restrict row_position, int heads, int columns,
       float value) {
  mask(BLOCK_INDEX, scores, row_position, heads, columns, value);
}
