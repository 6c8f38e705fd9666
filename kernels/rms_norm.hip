// rms_norm: y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// Zhang & Sennrich, "Root Mean Square Layer Normalization" (2019). A row's sum of squares is taken in an order that
// depends on its length alone.
#include "forge/reduce.h"

// One block a row.
KERNEL(rms_norm, const float* __restrict x,  // [rows, hidden]
       const float* __restrict weight,       // [hidden]
       float* __restrict y,                  // [rows, hidden]; may be x
       int hidden, float eps) {
  using namespace forge;
  const float* in = x + static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  float* out = y + static_cast<size_t>(BLOCK_INDEX.x) * hidden;

  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) sum += in[i] * in[i];
  const float scale = rsqrt_of(block_sum(sum) / static_cast<float>(hidden) + eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) out[i] = in[i] * scale * weight[i];
}
