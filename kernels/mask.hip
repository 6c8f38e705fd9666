// mask: scores[r][h][c] = value for each column c past the row's position
#include "forge/scores.h"

KERNEL(mask_f32, float* __restrict scores,      // [rows, heads, columns]
       const int32_t* __restrict row_position,  // [rows]
       int heads, int columns, float value) {
  forge::mask_row(BLOCK_INDEX, scores, row_position, heads, columns, value);
}
