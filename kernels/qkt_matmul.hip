// qkt_matmul: scores[r][h][c] = q[r][h] · k[c][h's KV head]
//
// The first step of attention written out, with scores in memory: slow, plain, and what the fused kernels must equal.
#include "forge/dot.h"
#include "forge/slot.h"

namespace {
using namespace forge;

// Scores of one row and head over `columns` keys; key(c) is where column c's vector lies.
template <class Key>
DEVICE void score_row(const float* q, float* scores, int columns, int head_dim, Key key) {
  for (int c = wave_id(); c < columns; c += WAVES) {
    const float sum = wave_sum(dot(key(c), q, head_dim));
    if (lane_id() == 0) scores[c] = sum;
  }
}

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

// Grid: x = heads, y = rows.
KERNEL(qkt_matmul, const float* __restrict q,  // [rows, heads, head_dim]
       const float* __restrict k,              // [columns, kv_heads, head_dim]
       float* __restrict scores,               // [rows, heads, columns]
       int heads, int kv_heads, int head_dim, int columns) {
  const int head = BLOCK_INDEX.x, kv_head = head / (heads / kv_heads);
  const size_t place = static_cast<size_t>(BLOCK_INDEX.y) * heads + head;
  score_row(q + place * head_dim, scores + place * columns, columns, head_dim,
            [&](int c) { return k + (static_cast<size_t>(c) * kv_heads + kv_head) * head_dim; });
}

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
