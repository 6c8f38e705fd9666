// qk_norm: x / sqrt(mean(x²) + eps) * weight, for q of all heads together and for k of all, in place
//
// The order of a sum of squares depends on its length alone.
#include "forge/norm.h"

// Grid: x = 2, q and k; y = tokens.
KERNEL(qk_norm, float* __restrict qkv,        // [tokens, heads + 2 * kv_heads, head_dim]; v stays as it is
       const float* __restrict query_weight,  // [heads, head_dim]
       const float* __restrict key_weight,    // [kv_heads, head_dim]
       int heads, int kv_heads, int head_dim, float eps) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const bool is_key = block.x == 1;
  const size_t first_head = static_cast<size_t>(block.y) * (heads + 2 * kv_heads) + (is_key ? heads : 0);
  float* x = qkv + first_head * head_dim;
  const float* weight = is_key ? key_weight : query_weight;
  const int count = (is_key ? kv_heads : heads) * head_dim;
  const float scale = inv_rms<float>(x, count, eps);

  SIMD
  for (int i = thread_id(); i < count; i += BLOCK) x[i] = x[i] * scale * weight[i];
}
