// mask: scores[r][h][c] = value for each column c past the row's position, or a window before it
#include "forge/scores.h"

KERNEL(mask_f32, float* __restrict scores,      // [rows, heads, columns]
       const int32_t* __restrict row_position,  // [rows]
       int heads, int columns, int window, float value) {
  forge::mask_row(BLOCK_INDEX, scores, row_position, heads, columns, window, value);
}
