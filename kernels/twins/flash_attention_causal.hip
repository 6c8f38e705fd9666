// flash_attention_causal: causal attention of tiles of prompt rows over the paged KV cache
//
// Dao et al., "FlashAttention" (2022). The rows of a tile are consecutive positions of one slot, so that each KV block
// is read from memory once for all of them; earlier chunks of the prompt are simply more cache. KV blocks lie at
// absolute positions and a row takes those of its own context alone: its bits do not depend on the tile it is in.
#include "forge/attention.h"

namespace {
using namespace forge;

constexpr int QUERIES = FLASH_QUERIES;

// Grid: x = heads, y = tiles. A wave owns every WAVES-th row of the tile.
template <int HEAD_DIM, class T>
DEVICE void flash_attention(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                            const T* __restrict v_cache, float* __restrict out, const int32_t* __restrict tiles,
                            const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                            const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, float scale) {
  constexpr int OWNED = QUERIES / WAVES;
  const int head = block.x, kv_head = head / (heads / kv_heads);
  const int first_row = tiles[2 * block.y], rows = tiles[2 * block.y + 1];
  const int first_position = row_position[first_row], length = first_position + rows;
  const int32_t* block_table = block_table_of(slots, row_slot[first_row], slot_words);
  const float* q = qkv + (static_cast<size_t>(first_row) * (heads + 2 * kv_heads) + head) * HEAD_DIM;
  SHARED(T, k_tile, (KV_BLOCK_TOKENS * HEAD_DIM));
  SHARED(T, v_tile, (KV_BLOCK_TOKENS * HEAD_DIM));

  Partial<lane_elements(HEAD_DIM)> parts[OWNED];
  UNROLL
  for (int o = 0; o < OWNED; o++) clear(parts[o]);
  for (int first = 0; first < length; first += KV_BLOCK_TOKENS) {
    const size_t offset = kv_offset(block_table, first, kv_heads, kv_head, HEAD_DIM);
    const int filled = min_of(KV_BLOCK_TOKENS, length - first) * HEAD_DIM;
    for (int i = thread_id(); i < filled; i += BLOCK) {
      k_tile[i] = k_cache[offset + i];
      v_tile[i] = v_cache[offset + i];
    }
    block_sync();
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      const int row = o * WAVES + wave_id();
      const int count = min_of(KV_BLOCK_TOKENS, first_position + row + 1 - first);
      if (row >= rows || count <= 0) continue;
      const float* query = q + static_cast<size_t>(row) * (heads + 2 * kv_heads) * HEAD_DIM;
      add_tokens<HEAD_DIM>(parts[o], query, k_tile + 0, v_tile + 0, count, {scale, 0.0f, 0});
    }
    block_sync();
  }
  float* target = out + (static_cast<size_t>(first_row) * heads + head) * HEAD_DIM;
  UNROLL
  for (int o = 0; o < OWNED; o++) {
    const int row = o * WAVES + wave_id();
    if (row < rows) write_result<HEAD_DIM>(parts[o], target + static_cast<size_t>(row) * heads * HEAD_DIM);
  }
}
}  // namespace

#define FLASH_ATTENTION_CAUSAL(name, type, head_dim)                                                           \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */          \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                \
         const type* __restrict v_cache,    /* the same */                                                     \
         float* __restrict out,             /* [tokens, heads, head_dim] */                                    \
         const int32_t* __restrict tiles,   /* [tiles, 2]: first row, rows (1 to 32, positions rising by 1) */ \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */            \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */ \
         int slot_words, int heads, int kv_heads, float scale) {                                               \
    flash_attention<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots,   \
                              slot_words, heads, kv_heads, scale);                                             \
  }
#define FLASH_ATTENTION_CAUSAL_TYPES(head_dim)                                    \
  FLASH_ATTENTION_CAUSAL(flash_attention_causal_f32_d##head_dim, float, head_dim) \
  FLASH_ATTENTION_CAUSAL(flash_attention_causal_f16_d##head_dim, forge::half_t, head_dim)

FORGE_HEAD_DIMS(FLASH_ATTENTION_CAUSAL_TYPES)
