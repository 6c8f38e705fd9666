// scale_f16: scale of rows in f16
#include "forge/scores.h"

KERNEL(scale_f16, forge::half_t* __restrict x, int columns, float factor) {
  forge::scale_row(BLOCK_INDEX.x, x, columns, factor);
}
