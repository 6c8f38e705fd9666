// heads_norm: x / sqrt(mean(x²) + eps) * weight, for each of some heads of a row by itself, in place
//
// A wave owns a head. It may be of values, of queries that have no keys, or any vector of which a row has several.
#include "forge/head_norm.h"

// Grid: x = ceil(heads / WAVES), y = rows.
KERNEL(heads_norm, float* __restrict x,  // [rows, heads * head_dim], x_stride apart
       const float* __restrict weight,   // [head_dim]
       int heads, int head_dim, int x_stride, float eps) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x * WAVES + wave_id();
  if (head >= heads) return;
  float* own = x + static_cast<size_t>(block.y) * x_stride + static_cast<size_t>(head) * head_dim;
  const float scale = head_scale(own, head_dim, eps);
  SIMD
  for (int i = lane_id(); i < head_dim; i += WAVE) own[i] = own[i] * scale * weight[i];
}
