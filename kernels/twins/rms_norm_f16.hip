// rms_norm_f16: rms_norm of rows in f16
#include "forge/norm.h"

KERNEL(rms_norm_f16, const forge::half_t* x, const float* __restrict weight, forge::half_t* y, int hidden, float eps) {
  forge::normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}
