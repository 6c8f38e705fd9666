// rms_norm: y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// One block per row. The order in which a row's squares are added depends only on its length.
#include "forge/norm.h"

KERNEL(rms_norm, const float* x,        // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* y,                        // [rows, hidden]; may be x
       int hidden, float eps) {
  using namespace forge;
  if constexpr (WAVE == 1) {  // CPU
    normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
  } else {
    const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;
    const float scale = inv_rms(x + row, hidden, eps);
    // x and y may alias, so the compiler cannot move a load ahead of a store: each thread issues several loads before
    // its stores, else every load waits for the store before it.
    constexpr int LOADS_PER_THREAD = 4;
    for (int from = thread_id(); from < hidden; from += LOADS_PER_THREAD * BLOCK) {
      float values[LOADS_PER_THREAD];
      UNROLL
      for (int e = 0; e < LOADS_PER_THREAD; e++) {
        const int i = from + e * BLOCK;
        values[e] = i < hidden ? x[row + i] * scale * weight[i] : 0.0f;
      }
      UNROLL
      for (int e = 0; e < LOADS_PER_THREAD; e++) {
        const int i = from + e * BLOCK;
        if (i < hidden) y[row + i] = values[e];
      }
    }
  }
}
