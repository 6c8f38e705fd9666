// attention_tile_fold_columns: attention_tile_split and attention_combine_columns in one launch, to the bit
#include "forge/attended_columns.h"
#include "forge/attention_fold.h"

namespace forge {
template <class T>
struct FoldedColumns {
  static constexpr int HELD = WAVE == 1 ? Q8_HELD : 2;
  AttendedColumns<T> to;
};
template <class T, int HELD>
DEVICE void store_folded(const FoldedColumns<T>& columns, int row, int width, int element, const float (&values)[HELD],
                         bool stores) {
  if (!stores) return;
  UNROLL
  for (int i = 0; i < HELD; i++) store_attended(columns.to, row, width, element + i, values[i]);
}
}  // namespace forge

// Grid: x = KV heads * tiles of their query heads, y = tokens, z = splits.
#define ATTENTION_TILE_FOLD_COLUMNS(name, type, head_dim)                                                           \
  KERNEL_RESIDENT(forge::STREAM_BLOCKS, name,                                                                       \
                  const float* __restrict qkv,             /* [tokens, heads + 2 * kv_heads, head_dim] */           \
                  const forge::half_t* __restrict k_cache, /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */      \
                  const forge::half_t* __restrict v_cache, /* the same */                                           \
                  float* parts,      /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */              \
                  int32_t* arrivals, /* [tokens, kv_heads * head_tiles] */                                          \
                  type* out,         /* [chunks, out_rows, CHUNK] */                                                \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */        \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                        \
                  int slot_words, int heads, int kv_heads, int head_tiles, int splits, int out_rows, float scale) { \
    using namespace forge;                                                                                          \
    const FoldedParts<FoldedColumns<type>> fold{parts, splits, arrivals, {{out, out_rows}}};                        \
    attention_tile_split<head_dim>(BLOCK_INDEX, Prepared{}, fold, qkv, k_cache, v_cache, row_position, row_slot,    \
                                   slots, slot_words, heads, kv_heads, head_tiles, scale);                          \
  }
#define F16(head_dim) ATTENTION_TILE_FOLD_COLUMNS(attention_tile_fold_columns_f16_d##head_dim, forge::half_t, head_dim)
#define BF16(head_dim) \
  ATTENTION_TILE_FOLD_COLUMNS(attention_tile_fold_columns_bf16_d##head_dim, forge::bfloat_t, head_dim)

FORGE_TILE_HEAD_DIMS(F16)
FORGE_TILE_HEAD_DIMS(BF16)
