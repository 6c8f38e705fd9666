// attention_paged: out = softmax(scale * q kᵀ) v over the positions 0 .. row_position of the row's slot, or over the
// last `window` of them
//
// Causal attention of any row, prompt or generated, over the paged KV cache; query heads share KV heads in groups
// (GQA). One block does all splits of a row's context in order: attention_split and attention_combine in one launch.
#include "forge/attention.h"

namespace {
using namespace forge;

// Grid: x = heads, y = tokens.
template <int HEAD_DIM, class T>
DEVICE void attention_paged(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                            const T* __restrict v_cache, float* __restrict out, const int32_t* __restrict row_position,
                            const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,
                            int heads, int kv_heads, int window, float scale, float softcap,
                            const float* __restrict sinks = nullptr) {
  const int head = block.x, row = block.y;
  const float* q = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * HEAD_DIM;
  const PagedHead<T> cache{k_cache, v_cache, block_table_of(slots, row_slot[row], slot_words), kv_heads,
                           head / (heads / kv_heads)};

  auto total = attend_context<HEAD_DIM>(cache, q, row_position[row], {scale, softcap, window});
  if (sinks != nullptr) add_sink(total, sinks[head]);
  if (wave_id() == 0) write_result<HEAD_DIM>(total, out + (static_cast<size_t>(row) * heads + head) * HEAD_DIM);
}
}  // namespace

#define ATTENTION_PAGED(name, type, head_dim)                                                                      \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */              \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */ \
         const type* __restrict v_cache,    /* the same */                                                         \
         float* __restrict out,             /* [tokens, heads, head_dim] */                                        \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */     \
         int slot_words, int heads, int kv_heads, int window, float scale, float softcap) {                        \
    attention_paged<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, row_position, row_slot, slots, slot_words,  \
                              heads, kv_heads, window, scale, softcap);                                            \
  }
#define ATTENTION_PAGED_TYPES(head_dim)                             \
  ATTENTION_PAGED(attention_paged_f32_d##head_dim, float, head_dim) \
  ATTENTION_PAGED(attention_paged_f16_d##head_dim, forge::half_t, head_dim)
#define ATTENTION_PAGED_Q8_0(head_dim) ATTENTION_PAGED(attention_paged_q8_0_d##head_dim, forge::KvQ8, head_dim)

FORGE_PAGED_HEAD_DIMS(ATTENTION_PAGED_TYPES)
FORGE_KV_Q8_HEAD_DIMS(ATTENTION_PAGED_Q8_0)

// With a sink for each head: its score is one of a softmax, and nothing more.
#define ATTENTION_SINKS(name, type, head_dim)                                                                     \
  KERNEL(name, const float* __restrict qkv, const type* __restrict k_cache, const type* __restrict v_cache,       \
         float* __restrict out, const int32_t* __restrict row_position, const int32_t* __restrict row_slot,       \
         const int32_t* __restrict slots, int slot_words, const float* __restrict sinks, /* [heads] */            \
         int heads, int kv_heads, int window, float scale) {                                                      \
    attention_paged<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, row_position, row_slot, slots, slot_words, \
                              heads, kv_heads, window, scale, 0.0f, sinks);                                       \
  }

ATTENTION_SINKS(attention_sinks_f32_d64, float, 64)
ATTENTION_SINKS(attention_sinks_f16_d64, forge::half_t, 64)
ATTENTION_SINKS(attention_sinks_q8_0_d64, forge::KvQ8, 64)
