// attention_tile_combine_rotated, _normed: attention_tile_split_rotated or _normed, and attention_combine,
// attention_combine_quantize or _convert, in one launch, to the bit
#include "forge/attention_rotated.h"
#include "forge/attention_tile_combine.h"

// Grid: x = KV heads * tiles of their query heads, y = 1, z = splits.
#define COMBINE_ROTATED(name, head_dim, type, To)                                                                     \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), name,                                                                \
                  const float* __restrict qkv, /* [1, heads + 2 * kv_heads, head_dim] */                              \
                  forge::half_t* k_cache,      /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                    \
                  forge::half_t* v_cache,      /* the same */                                                         \
                  const float* __restrict cosine, const float* __restrict sine, /* [max_position, rotary / 2] */      \
                  float* parts,      /* [1, heads, splits, 2 + head_dim]: largest, sum, values */                     \
                  int32_t* arrivals, /* [1, kv_heads * head_tiles] */                                                 \
                  type* out,         /* [1, heads, head_dim] */                                                       \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [1] */               \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                          \
                  int slot_words, const float* __restrict sinks, int heads, int kv_heads, int head_tiles, int splits, \
                  int rotary, int adjacent, int window, float scale, float softcap) {                                 \
    using namespace forge;                                                                                            \
    const Rotated row{k_cache, v_cache, cosine, sine, rotary, adjacent};                                              \
    const CombinedParts<To> combine{parts, splits, arrivals, To{out}, sinks};                                         \
    attention_tile_split<head_dim, half_t>(BLOCK_INDEX, row, combine, qkv, k_cache, v_cache, row_position, row_slot,  \
                                           slots, slot_words, heads, kv_heads, head_tiles, {scale, softcap, window}); \
  }
#define COMBINE_NORMED(name, head_dim, type, To)                                                                      \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), name, const float* __restrict qkv, forge::half_t* k_cache,           \
                  forge::half_t* v_cache, const float* __restrict cosine, const float* __restrict sine,               \
                  const float* __restrict query_weight, const float* __restrict key_weight, /* [head_dim] */          \
                  float* parts, int32_t* arrivals, type* out, const int32_t* __restrict row_position,                 \
                  const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,                \
                  const float* __restrict sinks, int heads, int kv_heads, int head_tiles, int splits, int rotary,     \
                  int adjacent, float eps, int window, float scale, float softcap) {                                  \
    using namespace forge;                                                                                            \
    SHARED(float, scales, (TILE + 1));                                                                                \
    const Rotated rotated{k_cache, v_cache, cosine, sine, rotary, adjacent};                                          \
    const auto row = normed(rotated, query_weight, key_weight, eps, scales + 0);                                      \
    const CombinedParts<To> combine{parts, splits, arrivals, To{out}, sinks};                                         \
    attention_tile_split<head_dim, half_t>(BLOCK_INDEX, row, combine, qkv, k_cache, v_cache, row_position, row_slot,  \
                                           slots, slot_words, heads, kv_heads, head_tiles, {scale, softcap, window}); \
  }
#define COMBINES(head_dim)                                                                                       \
  COMBINE_ROTATED(attention_tile_combine_rotated_q8_d##head_dim, head_dim, uint8_t, CombinedQuants)              \
  COMBINE_ROTATED(attention_tile_combine_rotated_f16_d##head_dim, head_dim, half_t, CombinedHalves<half_t>)      \
  COMBINE_ROTATED(attention_tile_combine_rotated_bf16_d##head_dim, head_dim, bfloat_t, CombinedHalves<bfloat_t>) \
  COMBINE_NORMED(attention_tile_combine_normed_q8_d##head_dim, head_dim, uint8_t, CombinedQuants)                \
  COMBINE_NORMED(attention_tile_combine_normed_f16_d##head_dim, head_dim, half_t, CombinedHalves<half_t>)        \
  COMBINE_NORMED(attention_tile_combine_normed_bf16_d##head_dim, head_dim, bfloat_t, CombinedHalves<bfloat_t>)

using namespace forge;
FORGE_FUSED_HEAD_DIMS(COMBINES)
