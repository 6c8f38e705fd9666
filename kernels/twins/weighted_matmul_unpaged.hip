// weighted_matmul: out[r][h] = sum_c weights[r][h][c] * v[c][h's KV head], values one behind the other
#include "forge/scores.h"

// Grid: x = heads, y = rows.
KERNEL(weighted_matmul, const float* __restrict weights,  // [rows, heads, columns]
       const float* __restrict v,                         // [columns, kv_heads, head_dim]
       float* __restrict out,                             // [rows, heads, head_dim]
       int heads, int kv_heads, int head_dim, int columns) {
  const int kv_head = BLOCK_INDEX.x / (heads / kv_heads);
  const size_t place = static_cast<size_t>(BLOCK_INDEX.y) * heads + BLOCK_INDEX.x;
  forge::weigh_row(weights + place * columns, out + place * head_dim, columns, head_dim,
                   [&](int c) { return v + (static_cast<size_t>(c) * kv_heads + kv_head) * head_dim; });
}
