// flash_attention_nocausal: out = softmax(scale * q kᵀ) v, every query over every key
//
// Dao et al., "FlashAttention" (2022): keys and values pass through LDS a tile at a time, shared by the queries of a
// block, and no score is ever stored. Twin of qkt_matmul, scale, softmax and weighted_matmul.
#include "forge/attention.h"

namespace {
using namespace forge;

constexpr int QUERIES = FLASH_QUERIES, TILE = KV_BLOCK_TOKENS;

// Grid: x = heads, y = ceil(rows / QUERIES), z = batch. A wave owns every WAVES-th query of the block.
template <int HEAD_DIM>
DEVICE void flash_attention(Dim3 block, const float* __restrict q, const float* __restrict k, const float* __restrict v,
                            float* __restrict out, int rows, int columns, int heads, int kv_heads, float scale) {
  constexpr int OWNED = QUERIES / WAVES;
  const int head = block.x, kv_head = head / (heads / kv_heads), first_row = block.y * QUERIES + wave_id();
  const size_t q_offset = (static_cast<size_t>(block.z) * rows * heads + head) * HEAD_DIM;
  const size_t kv_start = (static_cast<size_t>(block.z) * columns * kv_heads + kv_head) * HEAD_DIM;
  SHARED(float, k_tile, (TILE * HEAD_DIM));
  SHARED(float, v_tile, (TILE * HEAD_DIM));

  Partial<lane_elements(HEAD_DIM)> parts[OWNED];
  UNROLL
  for (int o = 0; o < OWNED; o++) clear(parts[o]);
  for (int first = 0; first < columns; first += TILE) {
    const int count = min_of(TILE, columns - first);
    for (int i = thread_id(); i < count * HEAD_DIM; i += BLOCK) {
      const size_t from = kv_start + static_cast<size_t>(first + i / HEAD_DIM) * kv_heads * HEAD_DIM + i % HEAD_DIM;
      k_tile[i] = k[from];
      v_tile[i] = v[from];
    }
    block_sync();
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      const int row = first_row + o * WAVES;
      if (row >= rows) continue;
      const float* query = q + q_offset + static_cast<size_t>(row) * heads * HEAD_DIM;
      add_tokens<HEAD_DIM>(parts[o], query, k_tile + 0, v_tile + 0, count, {scale, 0.0f, 0});
    }
    block_sync();
  }
  UNROLL
  for (int o = 0; o < OWNED; o++) {
    const int row = first_row + o * WAVES;
    if (row < rows) write_result<HEAD_DIM>(parts[o], out + q_offset + static_cast<size_t>(row) * heads * HEAD_DIM);
  }
}
}  // namespace

#define FLASH_ATTENTION_NOCAUSAL(head_dim)                                                                           \
  KERNEL(flash_attention_nocausal_d##head_dim, const float* __restrict q, /* [batch, rows, heads, head_dim] */       \
         const float* __restrict k,                                       /* [batch, columns, kv_heads, head_dim] */ \
         const float* __restrict v,                                       /* the same */                             \
         float* __restrict out,                                           /* [batch, rows, heads, head_dim] */       \
         int rows, int columns, int heads, int kv_heads, float scale) {                                              \
    flash_attention<head_dim>(BLOCK_INDEX, q, k, v, out, rows, columns, heads, kv_heads, scale);                     \
  }

FORGE_HEAD_DIMS(FLASH_ATTENTION_NOCAUSAL)
