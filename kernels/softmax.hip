// softmax: y = e^(x - max x) / sum e^(x - max x), for each row
#include "forge/scores.h"

KERNEL(softmax_f32, const float* x,  // [rows, columns]
       float* y,                     // [rows, columns]; may be x
       int columns) {
  forge::softmax_row(BLOCK_INDEX.x, x, y, columns);
}
