// qkt_matmul: scores[r][h][c] = q[r][h] · k[c][h's KV head]
//
// The first step of attention written out, over the paged cache.
#include "forge/scores.h"
#include "forge/slot.h"

namespace {
using namespace forge;

// Grid: x = heads, y = tokens. Columns past the row's position get 0: they are for `mask` to mask.
template <class T>
DEVICE void qkt_matmul_paged(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                             float* __restrict scores, const int32_t* __restrict row_position,
                             const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,
                             int heads, int kv_heads, int head_dim, int columns) {
  const int head = block.x, row = block.y, kv_head = head / (heads / kv_heads);
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  const int length = min_of(row_position[row] + 1, columns);
  float* target = scores + (static_cast<size_t>(row) * heads + head) * columns;
  const float* q = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * head_dim;
  score_row(q, target, length, head_dim,
            [&](int c) { return k_cache + kv_offset(block_table, c, kv_heads, kv_head, head_dim); });
  for (int c = length + thread_id(); c < columns; c += BLOCK) target[c] = 0.0f;
}
}  // namespace

#define QKT_MATMUL_PAGED(name, type)                                                                                \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */               \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                     \
         float* __restrict scores,          /* [tokens, heads, columns] */                                          \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                 \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */      \
         int slot_words, int heads, int kv_heads, int head_dim, int columns) {                                      \
    qkt_matmul_paged(BLOCK_INDEX, qkv, k_cache, scores, row_position, row_slot, slots, slot_words, heads, kv_heads, \
                     head_dim, columns);                                                                            \
  }

QKT_MATMUL_PAGED(qkt_matmul_paged_f32, float)
QKT_MATMUL_PAGED(qkt_matmul_paged_f16, forge::half_t)
