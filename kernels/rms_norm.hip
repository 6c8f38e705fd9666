// rms_norm: y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// A row's sum of squares is taken in an order that depends on its length alone.
#include "forge/norm.h"

KERNEL(rms_norm, const float* x,        // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* y,                        // [rows, hidden]; may be x
       int hidden, float eps) {
  forge::normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}
