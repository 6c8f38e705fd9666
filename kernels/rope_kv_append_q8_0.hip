// rope_kv_append_q8_0: rotates q and k in place by their position; quantizes k and v into the cache
//
// Unlike rope_kv_append it rotates k in place, too: then it is quantized.
#include "forge/kv_q8.h"
#include "forge/rope.h"

// Grid: x = heads + 2 * kv_heads (q heads, then k heads, then v heads), y = tokens.
KERNEL(rope_kv_append_q8_0, float* qkv, forge::KvQ8* __restrict k_cache,  // see kv_q8.h
       forge::KvQ8* __restrict v_cache, const float* __restrict cosine, const float* __restrict sine,
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot, const int32_t* __restrict slots,
       int slot_words, int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x, row = block.y, position = row_position[row];
  float* vector = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * head_dim;
  if (head < heads + kv_heads) {
    const size_t angles = static_cast<size_t>(position) * (rotary / 2);
    rotate(vector, vector, cosine + angles, sine + angles, head_dim, rotary, adjacent);
    if (head < heads) return;
    block_sync();
  }
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  KvQ8* target = (head < heads + kv_heads ? k_cache : v_cache) +
                 kv_q8_offset(block_table, position, kv_heads, (head - heads) % kv_heads, head_dim);
  store_kv_q8(target, position % KV_BLOCK_TOKENS, vector, head_dim);
}
