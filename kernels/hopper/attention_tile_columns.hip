// attention_tile_columns: attention_tile_split and attention_combine_columns of contexts of one split, in one launch
#include "forge/attention_tile_splits.h"
#include "forge/hopper/attended_columns.h"

namespace {
template <class T>
struct Whole {
  static constexpr bool IS_WHOLE = true;
  forge::AttendedColumnTiles<T> to;
  const float* sinks;
};
}  // namespace

// Grid: x = KV heads * tiles of their query heads, y = tokens.
#define ATTENTION_TILE_COLUMNS(name, type, head_dim)                                                                \
  KERNEL_RESIDENT(forge::split_blocks(head_dim), name,                                                              \
                  const float* __restrict qkv,             /* [tokens, heads + 2 * kv_heads, head_dim] */           \
                  const forge::half_t* __restrict k_cache, /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */      \
                  const forge::half_t* __restrict v_cache, /* the same */                                           \
                  type* __restrict out,                    /* [chunks, out_rows, CHUNK] */                          \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */        \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                        \
                  int slot_words, const float* __restrict sinks, int heads, int kv_heads, int head_tiles,           \
                  int out_rows, int window, float scale, float softcap) {                                           \
    forge::attention_tile_split<head_dim>(BLOCK_INDEX, forge::Prepared{}, Whole<type>{{out, out_rows}, sinks}, qkv, \
                                          k_cache, v_cache, row_position, row_slot, slots, slot_words, heads,       \
                                          kv_heads, head_tiles, {scale, softcap, window});                          \
  }
#define F16(head_dim) ATTENTION_TILE_COLUMNS(attention_tile_columns_f16_d##head_dim, forge::half_t, head_dim)
#define BF16(head_dim) ATTENTION_TILE_COLUMNS(attention_tile_columns_bf16_d##head_dim, forge::bfloat_t, head_dim)

FORGE_FUSED_HEAD_DIMS(F16)
FORGE_FUSED_HEAD_DIMS(BF16)
