// attention_tile_split_turned: rope_kv_append, then attention_tile_split, of one row, to the bit
//
// Each block turns the query heads that it takes; those of the split that the row's position is in turn its key and
// store it with its value first.
#include "forge/attention_tile_splits.h"
#include "forge/slot.h"

namespace forge {
struct Turned {
  half_t *k_cache, *v_cache;
  const float *cosine, *sine;  // [max_position, rotary / 2]
  int rotary, adjacent;
};

// Eight elements of a head, the first of them element 8 p, turned as rope.h does.
DEVICE Piece turned_piece(const Turned& row, const float* head, int p, int position) {
  const int half = row.rotary / 2;
  const size_t angles = static_cast<size_t>(position) * half;
  alignas(16) float values[PIECE];
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    const int e = p * PIECE + i;
    if (e >= row.rotary) {
      values[i] = head[e];
      continue;
    }
    const int j = row.adjacent ? e / 2 : e % half;
    const bool is_second = row.adjacent ? e % 2 == 1 : e >= half;
    const float x = head[row.adjacent ? 2 * j : j], y = head[row.adjacent ? 2 * j + 1 : j + half];
    const float c = row.cosine[angles + j], s = row.sine[angles + j];
    values[i] = is_second ? multiply_add(x, s, y * c) : multiply_add(x, c, -(y * s));
  }
  return to_piece(values);
}
DEVICE Piece query_piece(const Turned& row, const float* head, int p, int position) {
  return turned_piece(row, head, p, position);
}
template <int HEAD_DIM>
DEVICE void begin_row(const Turned& row, const float* vectors, const TileCache<half_t>& cache, int heads, int position,
                      int split) {
  if (position / CHUNK != split) return;
  constexpr int PIECES = HEAD_DIM / PIECE;
  const size_t place = kv_offset(cache.block_table, position, cache.kv_heads, cache.kv_head, HEAD_DIM);
  for (int i = thread_id(); i < 2 * PIECES; i += BLOCK) {
    const int p = i % PIECES;
    const float* key = vectors + (heads + cache.kv_head) * HEAD_DIM;
    if (i < PIECES) {
      store_aligned(row.k_cache + place + p * PIECE, turned_piece(row, key, p, position));
    } else {
      store_aligned(row.v_cache + place + p * PIECE, to_piece(key + cache.kv_heads * HEAD_DIM + p * PIECE));
    }
  }
  block_sync();
}
}  // namespace forge

// Grid: x = KV heads * tiles of their query heads, y = 1, z = splits.
#define ATTENTION_TILE_SPLIT_TURNED(head_dim)                                                                          \
  KERNEL_RESIDENT(forge::STREAM_BLOCKS, attention_tile_split_turned_f16_d##head_dim,                                   \
                  const float* __restrict qkv, /* [1, heads + 2 * kv_heads, head_dim] */                               \
                  forge::half_t* k_cache,      /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                     \
                  forge::half_t* v_cache,      /* the same */                                                          \
                  const float* __restrict cosine, const float* __restrict sine, /* [max_position, rotary / 2] */       \
                  float* __restrict parts, /* [1, heads, splits, 2 + head_dim]: largest, sum, values */                \
                  const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [1] */                \
                  const int32_t* __restrict slots, /* [slots, slot_words] */                                           \
                  int slot_words, int heads, int kv_heads, int head_tiles, int splits, int rotary, int adjacent,       \
                  float scale) {                                                                                       \
    const forge::Turned row{k_cache, v_cache, cosine, sine, rotary, adjacent};                                         \
    forge::attention_tile_split<head_dim, forge::half_t>(BLOCK_INDEX, row, qkv, k_cache, v_cache, parts, row_position, \
                                                         row_slot, slots, slot_words, heads, kv_heads, head_tiles,     \
                                                         splits, scale);                                               \
  }

FORGE_TILE_HEAD_DIMS(ATTENTION_TILE_SPLIT_TURNED)
