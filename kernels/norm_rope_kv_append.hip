// norm_rope_kv_append: head_norm, then rope_kv_append: what a model does that normalizes each head of q and k
//
// A wave owns a head, sums its squares in the order of head_norm and moves it on from where it was read.
#include "forge/head_norm.h"
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
  const int units = head_dim / TURN_UNIT, lane = lane_id();
  if (head >= all_heads) return;
  const bool is_normed = head < heads + kv_heads;
  const float* weight = head < heads ? query_weight : key_weight;
  RotatedRow<T> row{qkv + static_cast<size_t>(index) * all_heads * head_dim,
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
  // A lane's weights do not depend on the row: they are loaded while launches before this one still
  // run.
  auto own = unit_of(row, head, lane);
  Floats4 weights[2];
  if (is_normed && lane < units) {
    weights[0] = load_aligned<Floats4>(weight + own.a);
    weights[1] = load_aligned<Floats4>(weight + own.b);
  }
  wait_for_inputs();
  row.position = row_position[index];
  row.cosine += static_cast<size_t>(row.position) * (rotary / 2);
  row.sine += static_cast<size_t>(row.position) * (rotary / 2);
  row.block_table = block_table_of(slots, row_slot[index], slot_words);
  // Asked for before the sum, which the same elements are of.
  if (lane < units) load_unit(row, head, lane, own);
  const float scale = is_normed ? head_scale(row.vectors + head * head_dim, head_dim, eps) : 1.0f;
  for (int unit = lane; unit < units; unit += WAVE) {
    if (unit != lane) {
      own = unit_of(row, head, unit);
      load_unit(row, head, unit, own);
      if (is_normed) {
        weights[0] = load_aligned<Floats4>(weight + own.a);
        weights[1] = load_aligned<Floats4>(weight + own.b);
      }
    }
    if (is_normed) {
      UNROLL
      for (int i = 0; i < 4; i++) {
        own.first.f[i] = own.first.f[i] * scale * weights[0].f[i];
        own.second.f[i] = own.second.f[i] * scale * weights[1].f[i];
      }
    }
    rotate_and_store(row, head, own);
  }
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
