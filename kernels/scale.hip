// scale: x *= factor
#include "forge/scores.h"

KERNEL(scale_f32, float* __restrict x,  // [rows, columns]
       int columns, float factor) {
  forge::scale_row(BLOCK_INDEX.x, x, columns, factor);
}
