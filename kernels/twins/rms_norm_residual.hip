// rms_norm_residual: x += delta, then y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// residual_add and rms_norm in one launch.
#include "forge/reduce.h"

// One block a row.
KERNEL(rms_norm_residual, float* __restrict x,  // [rows, hidden], the residual stream
       const float* __restrict delta,           // [rows, hidden]
       const float* __restrict weight,          // [hidden]
       float* __restrict y,                     // [rows, hidden]
       int hidden, float eps) {
  using namespace forge;
  const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;

  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) {
    const float value = x[row + i] + delta[row + i];
    x[row + i] = value;
    sum += value * value;
  }
  const float scale = rsqrt_of(block_sum(sum) / static_cast<float>(hidden) + eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) y[row + i] = x[row + i] * scale * weight[i];
}
