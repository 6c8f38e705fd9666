// attention_large: causal attention of each row with heads of more than 256 elements, on matrix units: of one split of
// its context, for attention_combine to combine, or of all of it
#include "forge/attention_large.h"

#define LARGE_LDS(head_dim)                                                                        \
  SHARED(forge::Piece, queries, (forge::HEAD_STRIPS<head_dim> * forge::QUERY_STRIP));              \
  SHARED(forge::Piece, values, forge::VALUE_STRIP);                                                \
  SHARED(forge::WeightTile, weights, (forge::KEY_TILES * WAVE));                                   \
  SHARED(float, largest, (forge::KEY_TILES * forge::TILE));                                        \
  const forge::LargeLds<decltype(queries + 0), decltype(weights + 0), decltype(largest + 0)> lds { \
    queries, values, weights, largest                                                              \
  }

#define ATTENTION_LARGE(head_dim)                                                                                     \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), attention_tile_split_f16_d##head_dim,                                \
                  const float* __restrict qkv,             /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */  \
                  const forge::half_t* __restrict k_cache, /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */        \
                  const forge::half_t* __restrict v_cache, /* the same */                                             \
                  float* __restrict parts, /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */          \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */          \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                          \
                  int slot_words, int heads, int kv_heads, int head_tiles, int splits, int window, float scale,       \
                  float softcap) {                                                                                    \
    LARGE_LDS(head_dim);                                                                                              \
    forge::attend_split_of_large<head_dim>(lds, BLOCK_INDEX, qkv, k_cache, v_cache, parts, row_position, row_slot,    \
                                           slots, slot_words, heads, kv_heads, head_tiles, splits,                    \
                                           {scale, softcap, window});                                                 \
  }                                                                                                                   \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), attention_large_f16_d##head_dim, const float* __restrict qkv,        \
                  const forge::half_t* __restrict k_cache, const forge::half_t* __restrict v_cache,                   \
                  float* __restrict out, /* [tokens, heads, head_dim] */                                              \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot,                         \
                  const int32_t* __restrict slots, int slot_words, const float* __restrict sinks, /* [heads] */       \
                  int heads, int kv_heads, int head_tiles, int window, float scale, float softcap) {                  \
    LARGE_LDS(head_dim);                                                                                              \
    forge::attend_all_of_large<head_dim>(lds, BLOCK_INDEX, qkv, k_cache, v_cache, out, row_position, row_slot, slots, \
                                         slot_words, sinks, heads, kv_heads, head_tiles, {scale, softcap, window});   \
  }

FORGE_LARGE_HEAD_DIMS(ATTENTION_LARGE)
