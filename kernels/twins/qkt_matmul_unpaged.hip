// qkt_matmul: scores[r][h][c] = q[r][h] · k[c][h's KV head], keys one behind the other
#include "forge/scores.h"

// Grid: x = heads, y = rows.
KERNEL(qkt_matmul, const float* __restrict q,  // [rows, heads, head_dim]
       const float* __restrict k,              // [columns, kv_heads, head_dim]
       float* __restrict scores,               // [rows, heads, columns]
       int heads, int kv_heads, int head_dim, int columns) {
  const int head = BLOCK_INDEX.x, kv_head = head / (heads / kv_heads);
  const size_t place = static_cast<size_t>(BLOCK_INDEX.y) * heads + head;
  forge::score_row(q + place * head_dim, scores + place * columns, columns, head_dim,
                   [&](int c) { return k + (static_cast<size_t>(c) * kv_heads + kv_head) * head_dim; });
}
