// kv_append_q8_0: quantizes the k and v of each row into the paged cache, at the row's position
#include "forge/kv_q8.h"

// Grid: x = 2 * kv_heads (k heads, then v heads), y = tokens.
KERNEL(kv_append_q8_0, const float* __restrict qkv, forge::KvQ8* __restrict k_cache,  // see kv_q8.h
       forge::KvQ8* __restrict v_cache, const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
       const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int head_dim) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int row = block.y, kv_head = block.x % kv_heads, position = row_position[row];
  const float* vector = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + heads + block.x) * head_dim;
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  KvQ8* target =
      (block.x < kv_heads ? k_cache : v_cache) + kv_q8_offset(block_table, position, kv_heads, kv_head, head_dim);
  store_kv_q8(target, position % KV_BLOCK_TOKENS, vector, head_dim);
}
