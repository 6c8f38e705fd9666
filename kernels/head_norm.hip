// head_norm: x / sqrt(mean(x²) + eps) * weight, for each head of q and k by itself, in place
//
// A wave owns a head.
#include "forge/head_norm.h"

// Grid: x = ceil((heads + kv_heads) / WAVES), y = tokens.
KERNEL(head_norm, float* __restrict qkv,      // [tokens, heads + 2 * kv_heads, head_dim]; v stays as it is
       const float* __restrict query_weight,  // [head_dim]
       const float* __restrict key_weight,    // [head_dim]
       int heads, int kv_heads, int head_dim, float eps) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x * WAVES + wave_id();
  if (head >= heads + kv_heads) return;
  float* x = qkv + (static_cast<size_t>(block.y) * (heads + 2 * kv_heads) + head) * head_dim;
  const float* weight = head < heads ? query_weight : key_weight;
  const float scale = head_scale(x, head_dim, eps);
  SIMD
  for (int i = lane_id(); i < head_dim; i += WAVE) x[i] = x[i] * scale * weight[i];
}
