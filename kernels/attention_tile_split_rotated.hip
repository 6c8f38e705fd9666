// attention_tile_split_rotated, _normed: rope_kv_append or norm_rope_kv_append, then attention_tile_split, of one row,
// to the bit
#include "forge/attention_rotated.h"

// Grid: x = KV heads * tiles of their query heads, y = 1, z = splits.
#define ATTENTION_TILE_SPLIT_ROTATED(head_dim)                                                                        \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), attention_tile_split_rotated_f16_d##head_dim,                        \
                  const float* __restrict qkv, /* [1, heads + 2 * kv_heads, head_dim] */                              \
                  forge::half_t* k_cache,      /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                    \
                  forge::half_t* v_cache,      /* the same */                                                         \
                  const float* __restrict cosine, const float* __restrict sine, /* [max_position, rotary / 2] */      \
                  float* __restrict parts, /* [1, heads, splits, 2 + head_dim]: largest, sum, values */               \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [1] */               \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                          \
                  int slot_words, int heads, int kv_heads, int head_tiles, int splits, int rotary, int adjacent,      \
                  int window, float scale, float softcap) {                                                           \
    const forge::Rotated row{k_cache, v_cache, cosine, sine, rotary, adjacent};                                       \
    forge::attention_tile_split<head_dim, forge::half_t>(BLOCK_INDEX, row, forge::SplitParts{parts, splits}, qkv,     \
                                                         k_cache, v_cache, row_position, row_slot, slots, slot_words, \
                                                         heads, kv_heads, head_tiles, {scale, softcap, window});      \
  }
#define ATTENTION_TILE_SPLIT_NORMED(head_dim)                                                                          \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), attention_tile_split_normed_f16_d##head_dim,                          \
                  const float* __restrict qkv, forge::half_t* k_cache, forge::half_t* v_cache,                         \
                  const float* __restrict cosine, const float* __restrict sine, const float* __restrict query_weight,  \
                  const float* __restrict key_weight, /* [head_dim] */                                                 \
                  float* __restrict parts, const int32_t* __restrict row_position, const int32_t* __restrict row_slot, \
                  const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int head_tiles,            \
                  int splits, int rotary, int adjacent, float eps, int window, float scale, float softcap) {           \
    using namespace forge;                                                                                             \
    SHARED(float, scales, (TILE + 1));                                                                                 \
    const Rotated rotated{k_cache, v_cache, cosine, sine, rotary, adjacent};                                           \
    const auto row = normed(rotated, query_weight, key_weight, eps, scales + 0);                                       \
    attention_tile_split<head_dim, half_t>(BLOCK_INDEX, row, SplitParts{parts, splits}, qkv, k_cache, v_cache,         \
                                           row_position, row_slot, slots, slot_words, heads, kv_heads, head_tiles,     \
                                           {scale, softcap, window});                                                  \
  }

FORGE_FUSED_HEAD_DIMS(ATTENTION_TILE_SPLIT_ROTATED)
FORGE_FUSED_HEAD_DIMS(ATTENTION_TILE_SPLIT_NORMED)
