// weighted_matmul: out[r][h] = sum_c weights[r][h][c] * v[c][h's KV head]
//
// The last step of attention written out; see qkt_matmul.
#include "forge/scores.h"
#include "forge/slot.h"

namespace {
using namespace forge;

// Grid: x = heads, y = tokens. Columns past the row's position are not read.
template <class T>
DEVICE void weighted_matmul_paged(Dim3 block, const float* __restrict weights, const T* __restrict v_cache,
                                  float* __restrict out, const int32_t* __restrict row_position,
                                  const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,
                                  int heads, int kv_heads, int head_dim, int columns) {
  const int row = block.y, kv_head = block.x / (heads / kv_heads);
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  const size_t place = static_cast<size_t>(row) * heads + block.x;
  weigh_row(weights + place * columns, out + place * head_dim, min_of(row_position[row] + 1, columns), head_dim,
            [&](int c) { return v_cache + kv_offset(block_table, c, kv_heads, kv_head, head_dim); });
}
}  // namespace

#define WEIGHTED_MATMUL_PAGED(name, type)                                                                       \
  KERNEL(name, const float* __restrict weights, /* [tokens, heads, columns] */                                  \
         const type* __restrict v_cache,        /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */             \
         float* __restrict out,                 /* [tokens, heads, head_dim] */                                 \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */             \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */  \
         int slot_words, int heads, int kv_heads, int head_dim, int columns) {                                  \
    weighted_matmul_paged(BLOCK_INDEX, weights, v_cache, out, row_position, row_slot, slots, slot_words, heads, \
                          kv_heads, head_dim, columns);                                                         \
  }

WEIGHTED_MATMUL_PAGED(weighted_matmul_paged_f32, float)
WEIGHTED_MATMUL_PAGED(weighted_matmul_paged_f16, forge::half_t)
