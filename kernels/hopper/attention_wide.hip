// attention_wide: attention_tile on Hopper's matrix units
#include "forge/hopper/attention_wide_parts.h"

namespace {
using namespace forge;

template <int HEAD_DIM, class... Args>
DEVICE void attend(Args... args) {
  if constexpr (HEAD_DIM > 128) {
    attention_wide_parts<HEAD_DIM>(args...);
  } else {
    attention_wide<HEAD_DIM>(args...);
  }
}
}  // namespace

// A kernel of its own for softcapped scores: their instructions more than double the code of a chunk, and a chunk that
// does not run them still took 5 % longer (H200).
#define ATTENTION_WIDE(head_dim)                                                                                       \
  KERNEL_OF(forge::ATTENTION_WIDE_THREADS, 1, attention_wide_f16_d##head_dim,                                          \
            const float* __restrict qkv,                   /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */   \
            const forge::half_t* __restrict k_cache,       /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */         \
            const forge::half_t* __restrict v_cache,       /* the same */                                              \
            float* __restrict out,                         /* [tokens, heads, head_dim] */                             \
            const int32_t* __restrict tiles,               /* [tiles, 2], as those of attention_tile */                \
            const int32_t* __restrict row_position,        /* [tokens] */                                              \
            const int32_t* __restrict row_slot,            /* [tokens] */                                              \
            const int32_t* __restrict slots,               /* [slots, slot_words] */                                   \
            int slot_words, const float* __restrict sinks, /* [heads] */                                               \
            int heads, int kv_heads, int window, float scale) {                                                        \
    attend<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots, slot_words, sinks, \
                     heads, kv_heads, forge::Scoring{scale, 0.0f, window});                                            \
  }                                                                                                                    \
  KERNEL_OF(forge::ATTENTION_WIDE_THREADS, 1, attention_wide_softcapped_f16_d##head_dim, const float* __restrict qkv,  \
            const forge::half_t* __restrict k_cache, const forge::half_t* __restrict v_cache, float* __restrict out,   \
            const int32_t* __restrict tiles, const int32_t* __restrict row_position,                                   \
            const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,                       \
            const float* __restrict sinks, int heads, int kv_heads, int window, float scale, float softcap) {          \
    attend<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots, slot_words, sinks, \
                     heads, kv_heads, forge::Scoring{scale, softcap, window});                                         \
  }

FORGE_WIDE_HEAD_DIMS(ATTENTION_WIDE)
