// attention_tile_combine_q8_0: attention_tile_split_q8_0, and attention_combine_quantize or _convert, in one launch, to
// the bit
#include "forge/attention_tile_combine.h"

// Grid: x = KV heads * tiles of their query heads, y = tokens, z = splits.
#define ATTENTION_TILE_COMBINE(name, head_dim, type, To)                                                              \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), name,                                                                \
                  const float* __restrict qkv,           /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */    \
                  const forge::KvQ8* __restrict k_cache, /* see kv_q8.h */                                            \
                  const forge::KvQ8* __restrict v_cache, /* the same */                                               \
                  float* parts,      /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */                \
                  int32_t* arrivals, /* [tokens, kv_heads * head_tiles] */                                            \
                  type* out,         /* [tokens, heads, head_dim] */                                                  \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */          \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                          \
                  int slot_words, const float* __restrict sinks, int heads, int kv_heads, int head_tiles, int splits, \
                  int window, float scale, float softcap) {                                                           \
    using namespace forge;                                                                                            \
    const CombinedParts<To> combine{parts, splits, arrivals, To{out}, sinks};                                         \
    attention_tile_split<head_dim>(BLOCK_INDEX, Prepared{}, combine, qkv, k_cache, v_cache, row_position, row_slot,   \
                                   slots, slot_words, heads, kv_heads, head_tiles, {scale, softcap, window});         \
  }
#define COMBINES(head_dim)                                                                                      \
  ATTENTION_TILE_COMBINE(attention_tile_combine_q8_0_q8_d##head_dim, head_dim, uint8_t, CombinedQuants)         \
  ATTENTION_TILE_COMBINE(attention_tile_combine_q8_0_f16_d##head_dim, head_dim, half_t, CombinedHalves<half_t>) \
  ATTENTION_TILE_COMBINE(attention_tile_combine_q8_0_bf16_d##head_dim, head_dim, bfloat_t, CombinedHalves<bfloat_t>)

using namespace forge;
FORGE_FUSED_HEAD_DIMS(COMBINES)
