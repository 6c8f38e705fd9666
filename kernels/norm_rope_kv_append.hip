// norm_rope_kv_append: head_norm, then rope_kv_append: what a model does that normalizes each head of q and k
//
// A wave owns a head, sums its squares in the order of head_norm and moves it on from where it was read.
#include "forge/rope_append.h"

namespace {
using namespace forge;

// Grid: x = ceil((heads + 2 * kv_heads) / WAVES) (q heads, then k heads, then v heads), y = tokens.
template <class T>
DEVICE void norm_rope_kv_append(Dim3 block, float* qkv, const float* query_weight, const float* key_weight, T* k_cache,
                                T* v_cache, const float* cosine, const float* sine, const int32_t* row_position,
                                const int32_t* row_slot, const int32_t* slots, int slot_words, int heads, int kv_heads,
                                int head_dim, int rotary, int adjacent, float eps) {
  let_next_begin();
  const int index = block.y, all_heads = heads + 2 * kv_heads, head = block.x * WAVES + wave_id();
  if (head >= all_heads) return;
  const float* weight = head < heads ? query_weight : head < heads + kv_heads ? key_weight : nullptr;
  TurnedRow<T> row{qkv + static_cast<size_t>(index) * all_heads * head_dim,
                   cosine,
                   sine,
                   k_cache,
                   v_cache,
                   slots,
                   0,
                   heads,
                   kv_heads,
                   head_dim,
                   rotary,
                   adjacent};
  turn_head(row, head, weight, eps, [&](TurnedRow<T>& own) {
    // Launches before this one may still run until here.
    wait_for_inputs();
    own.position = row_position[index];
    own.cosine += static_cast<size_t>(own.position) * (rotary / 2);
    own.sine += static_cast<size_t>(own.position) * (rotary / 2);
    own.block_table = block_table_of(slots, row_slot[index], slot_words);
  });
}

}  // namespace

KERNEL(norm_rope_kv_append_f32, float* qkv,   // [tokens, heads + 2 * kv_heads, head_dim]
       const float* __restrict query_weight,  // [head_dim]
       const float* __restrict key_weight,    // [head_dim]
       float* __restrict k_cache,             // [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]
       float* __restrict v_cache,             // the same
       const float* __restrict cosine,        // [max_position, rotary / 2]
       const float* __restrict sine,          // the same
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot,  // [tokens]
       const int32_t* __restrict slots,                                             // [slots, slot_words]
       int slot_words, int heads, int kv_heads, int head_dim, int rotary, int adjacent, float eps) {
  norm_rope_kv_append(BLOCK_INDEX_AHEAD, qkv, query_weight, key_weight, k_cache, v_cache, cosine, sine, row_position,
                      row_slot, slots, slot_words, heads, kv_heads, head_dim, rotary, adjacent, eps);
}

KERNEL(norm_rope_kv_append_f16, float* qkv, const float* __restrict query_weight, const float* __restrict key_weight,
       forge::half_t* __restrict k_cache, forge::half_t* __restrict v_cache, const float* __restrict cosine,
       const float* __restrict sine, const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
       const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int head_dim, int rotary, int adjacent,
       float eps) {
  norm_rope_kv_append(BLOCK_INDEX_AHEAD, qkv, query_weight, key_weight, k_cache, v_cache, cosine, sine, row_position,
                      row_slot, slots, slot_words, heads, kv_heads, head_dim, rotary, adjacent, eps);
}
