// attention_tile_split: attention of each row over one split of its context on matrix units, for attention_combine to
// fold
//
// Flash-decoding (Dao et al. 2023) with splits at fixed absolute positions. A block takes all query heads of one KV
// head of one row and reads keys and values once; each wave takes whole chunks. A row's bits are those of
// attention_tile.
#pragma once

#include "attention_tile.h"

namespace forge {

// Chunks of a split, and of these a wave's own; and how many elements of the values are multiplied at a time.
constexpr int CHUNKS = SPLIT / CHUNK, OWNED = CHUNKS / WAVES, ELEMENTS = 32;

// Grid: x = KV heads, y = tokens, z = splits. Splits past the row's position are not written.
template <int HEAD_DIM, class T>
DEVICE void attention_tile_split(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                                 const T* __restrict v_cache, float* __restrict parts,
                                 const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                                 const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int splits,
                                 float scale) {
  const int kv_head = block.x, row = block.y, split = block.z, group = heads / kv_heads;
  const int first = split * SPLIT, length = row_position[row] + 1;
  if (first >= length) return;
  const TileCache<T> cache{k_cache,  v_cache, block_table_of(slots, row_slot[row], slot_words),
                           kv_heads, kv_head, length};
  const int chunks = min_of((length - first + CHUNK - 1) / CHUNK, CHUNKS);
  SHARED(half_t, weights, (CHUNKS * TILE * CHUNK));
  SHARED(Piece, values, (CHUNKS * ELEMENTS * ROW_PIECES));
  SHARED(float, products, (CHUNKS * TILE * ELEMENTS));
  SHARED(float, largest, (CHUNKS * TILE));
  SHARED(float, sums, (CHUNKS * TILE));
  SHARED(float, total_factors, (CHUNKS * TILE));
  SHARED(float, next_factors, (CHUNKS * TILE));

  for (int first_head = 0; first_head < group; first_head += TILE) {
    const int queries = min_of(group - first_head, TILE);
    const float* q =
        qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + kv_head * group + first_head) * HEAD_DIM;
    const size_t place = static_cast<size_t>(row) * heads + kv_head * group + first_head;
    for (int o = 0; o < OWNED; o++) {
      const int chunk = o * WAVES + wave_id(), start = first + chunk * CHUNK;
      if (chunk >= chunks) continue;
      TileSum scores[2][1];
      clear(scores[0][0]);
      clear(scores[1][0]);
      UNROLL
      for (int k = 0; k < HEAD_DIM; k += TILE_DEPTH) {
        Fragment<half_t> query[1], keys[2];
        UNROLL
        for (int p = 0; p < FRAGMENT_PIECES; p++) {
          query[0].pieces[p] = to_piece(q + min_of(piece_row(p), queries - 1) * HEAD_DIM + k + piece_k(p));
          // Quants on their way to f16 take registers of their own.
          if (sizeof(T) == 1 || (HOARDS_LOADS && k % (2 * TILE_DEPTH) != 0)) schedule_fence();
          UNROLL
          for (int c = 0; c < 2; c++) {
            keys[c].pieces[p] = load_key<HEAD_DIM>(cache, start + c * TILE + piece_row(p), k + piece_k(p));
          }
        }
        multiply_tiles(scores, query, keys);
      }
      TileStats stats;
      int ends[TILE_VALUES];
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++) ends[i] = length - start;
      weigh(scores, stats, ends, scale);
      store_weights(weights + chunk * TILE * CHUNK, scores);
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++) {
        if (value_column(i) != 0) continue;
        largest[chunk * TILE + value_row(i)] = stats.largest[i];
        sums[chunk * TILE + value_row(i)] = stats.sum[i];
      }
    }
    block_sync();
    for (int i = thread_id(); i < queries; i += BLOCK) {
      float most = LOWEST, sum = 0.0f;
      for (int c = 0; c < chunks; c++) {
        const FoldFactors factors = fold_stats(most, sum, largest[c * TILE + i], sums[c * TILE + i]);
        total_factors[c * TILE + i] = factors.total;
        next_factors[c * TILE + i] = factors.next;
      }
      float* target = parts + ((place + i) * splits + split) * (HEAD_DIM + 2);
      target[0] = most;
      target[1] = sum;
    }

    for (int element = 0; element < HEAD_DIM; element += ELEMENTS) {
      for (int o = 0; o < OWNED; o++) {
        const int chunk = o * WAVES + wave_id();
        if (chunk >= chunks) continue;
        for (int i = lane_id(); i < ROW_PIECES * ELEMENTS / 4; i += WAVE) {
          const int p = i / (ELEMENTS / 4), e = i % (ELEMENTS / 4) * 4;
          Piece pieces[4];
          turn(pieces, load_values<HEAD_DIM>(cache, first + chunk * CHUNK + p * PIECE, element + e));
          UNROLL
          for (int j = 0; j < 4; j++) values[chunk * ELEMENTS * ROW_PIECES + piece_slot(e + j, p)] = pieces[j];
        }
      }
      block_sync();
      for (int o = 0; o < OWNED; o++) {
        const int chunk = o * WAVES + wave_id();
        if (chunk >= chunks) continue;
        Fragment<half_t> weight[1], value[2];
        load_fragment_of_halves(weight[0], weights + chunk * TILE * CHUNK, 0);
        TileSum product[2][1];
        UNROLL
        for (int c = 0; c < 2; c++) {
          load_fragment(value[c], values + (chunk * ELEMENTS + c * TILE) * ROW_PIECES);
          clear(product[c][0]);
        }
        multiply_tiles(product, weight, value);
        UNROLL
        for (int c = 0; c < 2; c++) {
          UNROLL
          for (int i = 0; i < TILE_VALUES; i++) {
            products[(chunk * TILE + value_row(i)) * ELEMENTS + c * TILE + value_column(i)] = product[c][0].values[i];
          }
        }
      }
      block_sync();
      for (int i = thread_id(); i < queries * ELEMENTS; i += BLOCK) {
        const int query = i / ELEMENTS, e = i % ELEMENTS;
        float total = 0.0f;
        for (int c = 0; c < chunks; c++) {
          const FoldFactors factors{total_factors[c * TILE + query], next_factors[c * TILE + query]};
          total = fold_value(total, products[(c * TILE + query) * ELEMENTS + e], factors);
        }
        parts[((place + query) * splits + split) * (HEAD_DIM + 2) + 2 + element + e] = total;
      }
      block_sync();
    }
  }
}

}  // namespace forge

#define ATTENTION_TILE_SPLIT(name, type, head_dim)                                                                  \
  KERNEL_RESIDENT(                                                                                                  \
      1, name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */               \
      const type* __restrict k_cache,       /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */  \
      const type* __restrict v_cache,       /* the same */                                                          \
      float* __restrict parts,              /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */       \
      const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                    \
      const int32_t* __restrict slots,                                            /* [slots, slot_words] */         \
      int slot_words, int heads, int kv_heads, int splits, float scale) {                                           \
    forge::attention_tile_split<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, parts, row_position, row_slot, slots, \
                                          slot_words, heads, kv_heads, splits, scale);                              \
  }
