// attention_tile: causal attention of tiles of prompt rows over the paged KV cache, on matrix units
//
// Dao et al., "FlashAttention" (2022). The rows of a tile are consecutive positions of one slot; they and the query
// heads of a KV head share each chunk of keys and values. A row's bits depend on its own context alone: they are those
// of attention_tile_split and attention_combine.
#pragma once

#include "attention_tile.h"

namespace forge {

// A wave owns sixteen queries and ELEMENTS of their result; a block, eight such items.
constexpr int ITEMS = 8, OWNED = ITEMS / WAVES, ELEMENTS = 64, COLUMNS = ELEMENTS / TILE;

// Results of sixteen queries, chunk by chunk, split by split.
struct Totals {
  TileStats stats;
  TileSum values[COLUMNS];
};
DEVICE void clear(Totals& totals) {
  clear(totals.stats);
  UNROLL
  for (int c = 0; c < COLUMNS; c++) forge::clear(totals.values[c]);
}
// How what comes next is folded into totals: their statistics are, by this; queries that it does not reach stay as they
// are.
struct FoldTile {
  FoldFactors factors[TILE_VALUES];
};
DEVICE FoldTile fold_tile(TileStats& total, const TileStats& next, const int (&positions)[TILE_VALUES], int start) {
  FoldTile tile;
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    tile.factors[i] = FoldFactors{1.0f, 0.0f};
    if (start > positions[i]) continue;
    tile.factors[i] = fold_stats(total.largest[i], total.sum[i], next.largest[i], next.sum[i]);
  }
  return tile;
}
DEVICE void fold_values(TileSum& total, const TileSum& next, const FoldTile& tile) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    total.values[i] = fold_value(total.values[i], next.values[i], tile.factors[i]);
  }
}

// Grid: x = KV heads, y = tiles.
template <int HEAD_DIM, class T>
DEVICE void attention_tile(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                           const T* __restrict v_cache, float* __restrict out, const int32_t* __restrict tiles,
                           const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                           const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, float scale) {
  constexpr int PARTS = HEAD_DIM / ELEMENTS, DEPTHS = HEAD_DIM / TILE_DEPTH;
  // Not wave_id(): held in a scalar register it makes clang 19 run out of the others on RDNA 3.
  const int wave = thread_id() / WAVE;
  const int kv_head = block.x, group = heads / kv_heads;
  const int first_row = tiles[2 * block.y], rows = tiles[2 * block.y + 1], queries = rows * group;
  const int first_position = row_position[first_row], length = first_position + rows;
  const TileCache<T> cache{k_cache,  v_cache, block_table_of(slots, row_slot[first_row], slot_words),
                           kv_heads, kv_head, length};
  SHARED(Piece, keys, (CHUNK * DEPTHS * ROW_PIECES));
  SHARED(Piece, values, (HEAD_DIM * ROW_PIECES));
  SHARED(half_t, weights, (ITEMS * TILE * CHUNK));
  SHARED(Piece, query_tiles, (ITEMS / PARTS * TILE * DEPTHS * ROW_PIECES));

  for (int i = thread_id(); i < ITEMS / PARTS * TILE * DEPTHS * ROW_PIECES; i += BLOCK) {
    const int at = i / (DEPTHS * ROW_PIECES), piece = i % (DEPTHS * ROW_PIECES), used = min_of(at, queries - 1);
    const size_t head = static_cast<size_t>(first_row + used / group) * (heads + 2 * kv_heads) + kv_head * group;
    query_tiles[(at / TILE * DEPTHS + piece / ROW_PIECES) * TILE * ROW_PIECES +
                piece_slot(at % TILE, piece % ROW_PIECES)] =
        to_piece(qkv + (head + used % group) * HEAD_DIM + piece * PIECE);
  }
  Totals totals[OWNED], splits[OWNED];
  FoldTile into_split[OWNED];
  int positions[OWNED][TILE_VALUES], last_position[OWNED];
  UNROLL
  for (int o = 0; o < OWNED; o++) {
    const int first_query = (o * WAVES + wave) / PARTS * TILE;
    clear(totals[o]);
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      positions[o][i] = first_position + min_of(first_query + value_row(i), queries - 1) / group;
    }
    last_position[o] = first_query < queries ? first_position + (min_of(first_query + TILE, queries) - 1) / group : -1;
  }

  for (int start = 0; start < length; start += CHUNK) {
    for (int i = thread_id(); i < CHUNK * DEPTHS * ROW_PIECES; i += BLOCK) {
      const int position = i / (DEPTHS * ROW_PIECES), piece = i % (DEPTHS * ROW_PIECES);
      keys[piece / ROW_PIECES * CHUNK * ROW_PIECES + piece_slot(position, piece % ROW_PIECES)] =
          load_key<HEAD_DIM>(cache, start + position, piece * PIECE);
    }
    for (int i = thread_id(); i < HEAD_DIM / 4 * ROW_PIECES; i += BLOCK) {
      const int p = i / (HEAD_DIM / 4), e = i % (HEAD_DIM / 4) * 4;
      Piece pieces[4];
      turn(pieces, load_values<HEAD_DIM>(cache, start + p * PIECE, e));
      UNROLL
      for (int j = 0; j < 4; j++) values[piece_slot(e + j, p)] = pieces[j];
    }
    block_sync();
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      if (start > last_position[o]) continue;
      TileSum scores[2][1];
      forge::clear(scores[0][0]);
      forge::clear(scores[1][0]);
      ROLLED
      for (int d = 0; d < DEPTHS; d++) {
        Fragment<half_t> query[1], key[2];
        load_fragment(query[0], query_tiles + ((o * WAVES + wave) / PARTS * DEPTHS + d) * TILE * ROW_PIECES);
        UNROLL
        for (int c = 0; c < 2; c++) load_fragment(key[c], keys + (d * CHUNK + c * TILE) * ROW_PIECES);
        multiply_tiles(scores, query, key);
      }
      int ends[TILE_VALUES];
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++) ends[i] = positions[o][i] + 1 - start;
      TileStats part;
      weigh(scores, part, ends, scale);
      if (start % SPLIT == 0) clear(splits[o]);
      into_split[o] = fold_tile(splits[o].stats, part, positions[o], start);
      store_weights(weights + (o * WAVES + wave) * TILE * CHUNK, scores);
    }
    block_sync();
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      if (start > last_position[o]) continue;
      const int item = o * WAVES + wave;
      Fragment<half_t> weight[1];
      load_fragment_of_halves(weight[0], weights + item * TILE * CHUNK, 0);
      UNROLL
      for (int c = 0; c < COLUMNS; c++) {
        Fragment<half_t> value[1];
        load_fragment(value[0], values + (item % PARTS * ELEMENTS + c * TILE) * ROW_PIECES);
        TileSum product[1][1];
        forge::clear(product[0][0]);
        multiply_tiles(product, weight, value);
        fold_values(splits[o].values[c], product[0][0], into_split[o]);
      }
      if ((start + CHUNK) % SPLIT != 0 && start + CHUNK <= last_position[o]) continue;
      const FoldTile into_total = fold_tile(totals[o].stats, splits[o].stats, positions[o], start / SPLIT * SPLIT);
      UNROLL
      for (int c = 0; c < COLUMNS; c++) fold_values(totals[o].values[c], splits[o].values[c], into_total);
    }
    block_sync();
  }

  UNROLL
  for (int o = 0; o < OWNED; o++) {
    const int item = o * WAVES + wave, first_query = item / PARTS * TILE;
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      const int at = first_query + value_row(i);
      if (at >= queries) continue;
      const size_t place = static_cast<size_t>(first_row + at / group) * heads + kv_head * group + at % group;
      const float inverse = inverse_of(totals[o].stats.sum[i]);
      UNROLL
      for (int c = 0; c < COLUMNS; c++) {
        out[place * HEAD_DIM + item % PARTS * ELEMENTS + c * TILE + value_column(i)] =
            totals[o].values[c].values[i] * inverse;
      }
    }
  }
}

}  // namespace forge

// Of a tile [first row, rows]: its rows are of one slot, at positions that rise by 1, and no more than
// 8192 / head_dim * kv_heads / heads.
#define ATTENTION_TILE(name, type, head_dim)                                                                       \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */              \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */ \
         const type* __restrict v_cache,    /* the same */                                                         \
         float* __restrict out,             /* [tokens, heads, head_dim] */                                        \
         const int32_t* __restrict tiles,   /* [tiles, 2] */                                                       \
         const int32_t* __restrict row_position, /* [tokens] */                                                    \
         const int32_t* __restrict row_slot,     /* [tokens] */                                                    \
         const int32_t* __restrict slots,        /* [slots, slot_words] */                                         \
         int slot_words, int heads, int kv_heads, float scale) {                                                   \
    forge::attention_tile<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots, \
                                    slot_words, heads, kv_heads, scale);                                           \
  }
