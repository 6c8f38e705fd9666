// attention_wide: attention_tile on Hopper's matrix units
#include "forge/hopper/attention_wide_parts.h"

#define ATTENTION_WIDE(head_dim)                                                                                     \
  KERNEL_OF(forge::ATTENTION_WIDE_THREADS, 1, attention_wide_f16_d##head_dim,                                        \
            const float* __restrict qkv,                   /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */ \
            const forge::half_t* __restrict k_cache,       /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */       \
            const forge::half_t* __restrict v_cache,       /* the same */                                            \
            float* __restrict out,                         /* [tokens, heads, head_dim] */                           \
            const int32_t* __restrict tiles,               /* [tiles, 2], as those of attention_tile */              \
            const int32_t* __restrict row_position,        /* [tokens] */                                            \
            const int32_t* __restrict row_slot,            /* [tokens] */                                            \
            const int32_t* __restrict slots,               /* [slots, slot_words] */                                 \
            int slot_words, const float* __restrict sinks, /* [heads] */                                             \
            int heads, int kv_heads, int window, float scale, float softcap) {                                       \
    if constexpr (head_dim > 128) {                                                                                  \
      forge::attention_wide_parts<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot,  \
                                            slots, slot_words, sinks, heads, kv_heads, {scale, softcap, window});    \
    } else {                                                                                                         \
      forge::attention_wide<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots, \
                                      slot_words, sinks, heads, kv_heads, {scale, softcap, window});                 \
    }                                                                                                                \
  }

FORGE_WIDE_HEAD_DIMS(ATTENTION_WIDE)
