// scale_queries: q *= the factor of its row's position, in place
#include "forge/device.h"

// Grid: x = heads, y = tokens.
KERNEL(scale_queries, float* __restrict qkv,    // [tokens, heads + 2 * kv_heads, head_dim]
       const float* __restrict factors,         // [max_position]
       const int32_t* __restrict row_position,  // [tokens]
       int heads, int kv_heads, int head_dim) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const float factor = factors[row_position[block.y]];
  float* q = qkv + (static_cast<size_t>(block.y) * (heads + 2 * kv_heads) + block.x) * head_dim;
  SIMD
  for (int i = thread_id(); i < head_dim; i += BLOCK) q[i] *= factor;
}
