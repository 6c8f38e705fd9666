// softmax_f16: softmax of rows in f16
#include "forge/scores.h"

KERNEL(softmax_f16, const forge::half_t* x, forge::half_t* y, int columns) {
  forge::softmax_row(BLOCK_INDEX.x, x, y, columns);
}
