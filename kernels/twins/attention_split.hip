// attention_split: attention of each row over one split of its context, for attention_combine to combine
//
// Flash-decoding (Dao et al. 2023) with splits at fixed absolute positions: a long context of one row occupies many
// blocks, and yet its bits are those of attention_paged.
#include "forge/attention.h"

namespace {
using namespace forge;

// Grid: x = heads, y = tokens, z = splits. Splits past the row's position are not written.
template <int HEAD_DIM, class T>
DEVICE void attention_split(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                            const T* __restrict v_cache, float* __restrict parts,
                            const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                            const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int splits,
                            float scale) {
  constexpr int E = lane_elements(HEAD_DIM);
  const int head = block.x, row = block.y, split = block.z;
  const int first = split * SPLIT, length = row_position[row] + 1;
  if (first >= length) return;
  const float* q = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * HEAD_DIM;
  const PagedHead<T> cache{k_cache, v_cache, block_table_of(slots, row_slot[row], slot_words), kv_heads,
                           head / (heads / kv_heads)};
  const Partial<E> part =
      attend_split<HEAD_DIM>(cache, q, first, first, min_of(length, first + SPLIT), {scale, 0.0f, 0});
  if (wave_id() != 0) return;
  float* target = parts + ((static_cast<size_t>(row) * heads + head) * splits + split) * (HEAD_DIM + 2);
  if (lane_id() == 0) {
    target[0] = part.largest;
    target[1] = part.sum;
  }
  UNROLL
  for (int e = 0; e < E; e++) {
    const int i = e * WAVE + lane_id();
    if (i < HEAD_DIM) target[2 + i] = part.values[e];
  }
}
}  // namespace

#define ATTENTION_SPLIT(name, type, head_dim)                                                                       \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */               \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                     \
         const type* __restrict v_cache,    /* the same */                                                          \
         float* __restrict parts,           /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */       \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                 \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */      \
         int slot_words, int heads, int kv_heads, int splits, float scale) {                                        \
    attention_split<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, parts, row_position, row_slot, slots, slot_words, \
                              heads, kv_heads, splits, scale);                                                      \
  }
#define ATTENTION_SPLIT_TYPES(head_dim)                             \
  ATTENTION_SPLIT(attention_split_f32_d##head_dim, float, head_dim) \
  ATTENTION_SPLIT(attention_split_f16_d##head_dim, forge::half_t, head_dim)

FORGE_HEAD_DIMS(ATTENTION_SPLIT_TYPES)
