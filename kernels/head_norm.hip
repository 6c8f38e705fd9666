// head_norm: x / sqrt(mean(x²) + eps) * weight, for each head of q and k by itself, in place
//
// A wave owns a head. The order of its sum of squares depends on the head's size alone.
#include "forge/device.h"

namespace {
using namespace forge;

DEVICE void normalize(float* x, const float* weight, int head_dim, float eps) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = lane_id(); i < head_dim; i += WAVE) sum += x[i] * x[i];
  const float scale = rsqrt_of(wave_sum(sum) / static_cast<float>(head_dim) + eps);

  SIMD
  for (int i = lane_id(); i < head_dim; i += WAVE) x[i] = x[i] * scale * weight[i];
}
}  // namespace

// Grid: x = ceil((heads + kv_heads) / WAVES), y = tokens.
KERNEL(head_norm, float* __restrict qkv,      // [tokens, heads + 2 * kv_heads, head_dim]; v stays as it is
       const float* __restrict query_weight,  // [head_dim]
       const float* __restrict key_weight,    // [head_dim]
       int heads, int kv_heads, int head_dim, float eps) {
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x * WAVES + wave_id();
  if (head >= heads + kv_heads) return;
  float* x = qkv + (static_cast<size_t>(block.y) * (heads + 2 * kv_heads) + head) * head_dim;
  normalize(x, head < heads ? query_weight : key_weight, head_dim, eps);
}
