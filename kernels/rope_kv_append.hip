// rope_kv_append: rotates q and k by their position, in place for q, into the cache for k; stores v as it is
//
// rope and kv_append in one launch. Pair j is turned by the angle of table row `position`, column j.
#include "forge/rope.h"
#include "forge/slot.h"

namespace {
using namespace forge;

// Grid: x = heads + 2 * kv_heads (q heads, then k heads, then v heads), y = tokens.
template <class T>
DEVICE void rope_kv_append(Dim3 block, float* qkv, T* k_cache, T* v_cache, const float* cosine, const float* sine,
                           const int32_t* row_position, const int32_t* row_slot, const int32_t* slots, int slot_words,
                           int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  const int head = block.x, row = block.y, position = row_position[row];
  float* vector = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * head_dim;
  const float* c = cosine + static_cast<size_t>(position) * (rotary / 2);
  const float* s = sine + static_cast<size_t>(position) * (rotary / 2);
  if (head < heads) {
    rotate(vector, vector, c, s, head_dim, rotary, adjacent);
    return;
  }
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  const int kv_head = (head - heads) % kv_heads;
  const size_t offset = kv_offset(block_table, position, kv_heads, kv_head, head_dim);
  if (head < heads + kv_heads) {
    rotate(vector, k_cache + offset, c, s, head_dim, rotary, adjacent);
  } else {
    for (int i = thread_id(); i < head_dim; i += BLOCK) store(v_cache + offset + i, vector[i]);
  }
}

}  // namespace

KERNEL(rope_kv_append_f32, float* qkv,  // [tokens, heads + 2 * kv_heads, head_dim]
       float* __restrict k_cache,       // [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]
       float* __restrict v_cache,       // the same
       const float* __restrict cosine,  // [max_position, rotary / 2]
       const float* __restrict sine,    // the same
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot,  // [tokens]
       const int32_t* __restrict slots,                                             // [slots, slot_words]
       int slot_words, int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  rope_kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, cosine, sine, row_position, row_slot, slots, slot_words, heads,
                 kv_heads, head_dim, rotary, adjacent);
}

KERNEL(rope_kv_append_f16, float* qkv, forge::half_t* __restrict k_cache, forge::half_t* __restrict v_cache,
       const float* __restrict cosine, const float* __restrict sine, const int32_t* __restrict row_position,
       const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words, int heads, int kv_heads,
       int head_dim, int rotary, int adjacent) {
  rope_kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, cosine, sine, row_position, row_slot, slots, slot_words, heads,
                 kv_heads, head_dim, rotary, adjacent);
}
