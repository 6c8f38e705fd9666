// rope_kv_append: rotates q and k by their position, in place for q, into the cache for k; stores v as it is
//
// rope and kv_append in one launch. Pair j is rotated by the angle of table row `position`, column j. `rotary` is the
// number of rotated elements per head; pairs are (2j, 2j + 1) if `adjacent` is 1 (interleaved RoPE), else
// (j, j + rotary / 2) (NeoX-style).
#include "forge/rope_append.h"

namespace {
using namespace forge;

// Grid: x = (heads + 2 * kv_heads) / ROPE_HEADS (q heads, then k heads, then v heads), y = tokens.
template <class T>
DEVICE void rope_kv_append(Dim3 block, float* qkv, T* k_cache, T* v_cache, const float* cosine, const float* sine,
                           const int32_t* row_position, const int32_t* row_slot, const int32_t* slots, int slot_words,
                           int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  const int index = block.y, position = row_position[index], all_heads = heads + 2 * kv_heads;
  const int first_head = block.x * ROPE_HEADS, end_head = min_of(first_head + ROPE_HEADS, all_heads);
  const size_t angles = static_cast<size_t>(position) * (rotary / 2);
  const RotatedRow<T> row{qkv + static_cast<size_t>(index) * all_heads * head_dim,
                          cosine + angles,
                          sine + angles,
                          k_cache,
                          v_cache,
                          block_table_of(slots, row_slot[index], slot_words),
                          position,
                          heads,
                          kv_heads,
                          head_dim,
                          rotary,
                          adjacent};
  if (rotary % TURN_UNIT != 0) {
    for (int head = first_head; head < end_head; head++) {
      float* vector = row.vectors + head * head_dim;
      const int rotated = head < heads + kv_heads ? rotary : 0;
      if (head < heads) {
        rotate(vector, vector, row.cosine, row.sine, head_dim, rotated, adjacent);
      } else {
        rotate(vector, cached(row, head), row.cosine, row.sine, head_dim, rotated, adjacent);
      }
    }
    return;
  }
  const int units = head_dim / TURN_UNIT;
  for (int i = thread_id(); i < (end_head - first_head) * units; i += BLOCK) {
    const int head = first_head + i / units, unit = i % units;
    auto own = unit_of(row, head, unit);
    if (head < heads && !own.rotated) continue;
    load_unit(row, head, unit, own);
    rotate_and_store(row, head, own);
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
