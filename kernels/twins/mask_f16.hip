// mask_f16: mask of scores in f16
#include "forge/scores.h"

KERNEL(mask_f16, forge::half_t* __restrict scores, const int32_t* __restrict row_position, int heads, int columns,
       int window, float value) {
  forge::mask_row(BLOCK_INDEX, scores, row_position, heads, columns, window, value);
}
