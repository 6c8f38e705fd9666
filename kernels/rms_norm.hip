// rms_norm: y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// A row's sum of squares is taken in an order that depends on its length alone.
#include "forge/norm.h"

KERNEL(rms_norm, const float* x,        // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* y,                        // [rows, hidden]; may be x
       int hidden, float eps) {
  using namespace forge;
  if constexpr (WAVE == 1) {
    normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
  } else {
    const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;
    const float scale = inv_rms(x + row, hidden, eps);
    // y may be x, so that loads wait for the stores before them: several loads first.
    constexpr int AT_ONCE = 4;
    for (int from = thread_id(); from < hidden; from += AT_ONCE * BLOCK) {
      float values[AT_ONCE];
      UNROLL
      for (int e = 0; e < AT_ONCE; e++) {
        const int i = from + e * BLOCK;
        values[e] = i < hidden ? x[row + i] * scale * weight[i] : 0.0f;
      }
      UNROLL
      for (int e = 0; e < AT_ONCE; e++) {
        const int i = from + e * BLOCK;
        if (i < hidden) y[row + i] = values[e];
      }
    }
  }
}
