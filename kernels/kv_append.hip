// kv_append: stores the k and v of each row in the paged cache, at the row's position
#include "forge/slot.h"

namespace {
using namespace forge;

// Grid: x = 2 * kv_heads (k heads, then v heads), y = tokens.
template <class T>
DEVICE void kv_append(Dim3 block, const float* __restrict qkv, T* __restrict k_cache, T* __restrict v_cache,
                      const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                      const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int head_dim) {
  const int row = block.y, kv_head = block.x % kv_heads;
  const float* vector = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + heads + block.x) * head_dim;
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  T* target =
      (block.x < kv_heads ? k_cache : v_cache) + kv_offset(block_table, row_position[row], kv_heads, kv_head, head_dim);
  for (int i = thread_id(); i < head_dim; i += BLOCK) store(target + i, vector[i]);
}

}  // namespace

KERNEL(kv_append_f32, const float* __restrict qkv,  // [tokens, heads + 2 * kv_heads, head_dim]
       float* __restrict k_cache,                   // [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]
       float* __restrict v_cache,                   // the same
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot,  // [tokens]
       const int32_t* __restrict slots,                                             // [slots, slot_words]
       int slot_words, int heads, int kv_heads, int head_dim) {
  kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, row_position, row_slot, slots, slot_words, heads, kv_heads, head_dim);
}

KERNEL(kv_append_f16, const float* __restrict qkv, forge::half_t* __restrict k_cache, forge::half_t* __restrict v_cache,
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot, const int32_t* __restrict slots,
       int slot_words, int heads, int kv_heads, int head_dim) {
  kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, row_position, row_slot, slots, slot_words, heads, kv_heads, head_dim);
}
