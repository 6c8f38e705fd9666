// head_layer_norm: (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight, for each head of q and k, with weights
// per head, in place
//
// One wave per head. The order of the sums depends only on head_dim.
#include "forge/device.h"

// Grid: x = ceil((heads + kv_heads) / WAVES), y = tokens.
KERNEL(head_layer_norm, float* __restrict qkv,  // [tokens, heads + 2 * kv_heads, head_dim]; v stays as it is
       const float* __restrict query_weight,    // [heads, head_dim]
       const float* __restrict key_weight,      // [kv_heads, head_dim]
       int heads, int kv_heads, int head_dim, float eps) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x * WAVES + wave_id();
  if (head >= heads + kv_heads) return;
  float* x = qkv + (static_cast<size_t>(block.y) * (heads + 2 * kv_heads) + head) * head_dim;
  const bool is_query = head < heads;
  const float* weight = (is_query ? query_weight : key_weight) + (is_query ? head : head - heads) * head_dim;
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = lane_id(); i < head_dim; i += WAVE) sum += x[i];
  const float mean = wave_sum(sum) / static_cast<float>(head_dim);
  float squares = 0.0f;
  SIMD_SUM(squares)
  for (int i = lane_id(); i < head_dim; i += WAVE) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = rsqrt_of(wave_sum(squares) / static_cast<float>(head_dim) + eps);
  SIMD
  for (int i = lane_id(); i < head_dim; i += WAVE) x[i] = (x[i] - mean) * scale * weight[i];
}
