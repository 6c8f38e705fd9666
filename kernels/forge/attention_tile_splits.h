// attention_tile_split: attention of each row over one chunk of its context on matrix units, for attention_combine to
// combine
//
// Flash-decoding (Dao et al. 2023) with splits at fixed absolute positions. A block takes all query heads of one KV
// head of one row and reads keys and values once: its waves share the keys out, then the elements. A row's bits are
// those of attention_tile.
#pragma once

#include "attention_tile.h"

namespace forge {

// Tiles of keys of a wave.
constexpr int OWN_KEYS = KEY_TILES / WAVES;
static_assert(OWN_KEYS * WAVES == KEY_TILES, "whole tiles of keys");

// Strips of values that a block has in LDS at a time.
template <int HEAD_DIM>
constexpr int VALUE_STRIPS = HEAD_STRIPS<HEAD_DIM> < 2 ? HEAD_STRIPS<HEAD_DIM> : 2;
// Products over a head whose keys a thread asks for at a time.
template <int HEAD_DIM>
constexpr int ASKED_DEPTHS =
    HEAD_DEPTHS<HEAD_DIM> * FRAGMENT_PIECES > 16 ? HEAD_DEPTHS<HEAD_DIM> / 2 : HEAD_DEPTHS<HEAD_DIM>;
// Blocks of a multiprocessor: keys of large heads take more registers.
constexpr int split_blocks(int head_dim) {
  if (STREAM_BLOCKS < 2) return STREAM_BLOCKS;
  return head_dim <= 64 ? STREAM_BLOCKS + 1 : head_dim <= 128 ? STREAM_BLOCKS : 2;
}

// Inputs of a block: `count` query heads from `queries` on, and, for their KV head, the row's key and value.
struct SplitHeads {
  const float *queries, *key, *value;
  int count, position, split;
};
// Heads as they are multiplied: queries rotated, key and value in the cache. What else they may be says so by a
// `begin_row`, which all threads of a block call before they read the cache, and a `query_piece` of its own.
struct Prepared {};
template <int HEAD_DIM, class T>
DEVICE void begin_row(const Prepared&, const SplitHeads&, const TileCache<T>&) {}
template <int HEAD_DIM>
DEVICE Piece query_piece(const Prepared&, const SplitHeads& own, int query, int p) {
  return to_piece(own.queries + query * HEAD_DIM + p * PIECE);
}

// Destination of a split: a part for attention_combine, or, if the context has no other split, the combined result,
// it, which says so by a `store_attended` of its own (attention_combine.h).
struct SplitParts {
  static constexpr bool IS_WHOLE = false;
  float* parts;
  int splits;
};
// Which heads of which row a block has attended with, of how many splits, and which of the groups of heads of all rows
// these are.
struct SplitPlace {
  int row, splits, first_head, count, group;
};
// Runs when the block has stored its split; all threads together.
template <int HEAD_DIM, class Out>
DEVICE void finish_split(const Out&, const SplitPlace&, int) {}

// Grid: x = KV heads * tiles of their query heads, y = tokens, z = splits from the first that the row attends to.
// Splits past the row's position are not written.
template <int HEAD_DIM, class T, class Row, class Out>
DEVICE void attention_tile_split(Dim3 block, const Row& prepared, const Out& out, const float* __restrict qkv,
                                 const T* __restrict k_cache, const T* __restrict v_cache,
                                 const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                                 const int32_t* __restrict slots, int slot_words, int heads, int kv_heads,
                                 int head_tiles, Scoring scoring) {
  constexpr int DEPTHS = HEAD_DEPTHS<HEAD_DIM>, STRIPS = HEAD_STRIPS<HEAD_DIM>, HELD = VALUE_STRIPS<HEAD_DIM>;
  const int row = block.y, group = heads / kv_heads;
  const int kv_head = block.x / head_tiles, first_head = block.x % head_tiles * TILE;
  const int block_group = row * kv_heads * head_tiles + block.x;
  const int position = row_position[row], length = position + 1;
  const int split = first_split(position, scoring.window) + block.z, start = split * SPLIT;
  if (start >= length) return;
  const KeyRange range = attended(position, scoring.window);
  const TileCache<T> cache{k_cache,     v_cache, block_table_of(slots, row_slot[row], slot_words), kv_heads, kv_head,
                           range.first, length};
  SHARED(Piece, values, (HELD * VALUE_STRIP));
  SHARED(Piece, query_strips, (STRIPS * QUERY_STRIP));
  SHARED(WeightTile, weights, (KEY_TILES * WAVE));
  SHARED(float, largest, (KEY_TILES * TILE));

  const int queries = min_of(group - first_head, TILE);
  const float* vectors = qkv + static_cast<size_t>(row) * (heads + 2 * kv_heads) * HEAD_DIM;
  const float* key = vectors + (heads + kv_head) * HEAD_DIM;
  const SplitHeads own{
      vectors + (kv_head * group + first_head) * HEAD_DIM, key, key + kv_heads * HEAD_DIM, queries, position, split};
  begin_row<HEAD_DIM>(prepared, own, cache);

  const bool is_first_of_query = lane_id() / QUERY_LANE_STEP % QUERY_LANES == 0;
  KeyRange ranges[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) ranges[h] = range;
  // A tile of keys is a KV block; those that are not attended to may be anything, the scores are masked.
  static_assert(TILE == KV_BLOCK_TOKENS, "keys of a tile in one KV block");
  constexpr int ASKED = ASKED_DEPTHS<HEAD_DIM>;
  static_assert(DEPTHS % ASKED == 0, "whole turns");
  Fragment<half_t> keys[ASKED][OWN_KEYS];
  const auto ask_keys = [&](int first_depth) {
    UNROLL
    for (int k = 0; k < OWN_KEYS; k++) {
      const int first_key = readable(cache, start + (k * WAVES + wave_id()) * TILE) / TILE * TILE;
      UNROLL
      for (int p = 0; p < FRAGMENT_PIECES; p++) {
        UNROLL
        for (int d = 0; d < ASKED; d++) {
          const int element = readable_element<HEAD_DIM, PIECE>((first_depth + d) * TILE_DEPTH + piece_k(p));
          keys[d][k].pieces[p] = load_vector<HEAD_DIM>(cache, cache.k, first_key + piece_row(p), element);
        }
      }
    }
  };
  // What registers and LDS hold of what the block reads is asked for at once, keys first.
  ask_keys(0);
  ValuesOnTheirWay<T> ways[HELD];
  UNROLL
  for (int s = 0; s < HELD; s++) {
    start_values<HEAD_DIM>(ways[s], values + s * VALUE_STRIP, cache, start, s * STRIP);
  }
  fetch_group();
  bring_query_pieces<HEAD_DIM, 1>(query_strips, queries,
                                  [&](int query, int p) { return query_piece<HEAD_DIM>(prepared, own, query, p); });
  block_sync();

  TileSum scores[OWN_KEYS];
  UNROLL
  for (int k = 0; k < OWN_KEYS; k++) clear(scores[k]);
  UNROLL
  for (int d = 0; d < DEPTHS; d++) {
    constexpr int STRIP_DEPTHS = STRIP / TILE_DEPTH;
    if (d > 0 && d % ASKED == 0) {
      schedule_here();
      ask_keys(d);
    }
    Fragment<half_t> query;
    load_strip(query, query_strips + d / STRIP_DEPTHS * QUERY_STRIP, 0, d % STRIP_DEPTHS * TILE_DEPTH, lane_id_anew());
    multiply_scores(scores, 0, query, keys[d % ASKED]);
  }
  UNROLL
  for (int k = 0; k < OWN_KEYS; k++) {
    const int tile = k * WAVES + wave_id();
    mask_scores(scores[k], start + tile * TILE, ranges);
    float most[QUERIES_HELD];
    const TileSum own[1] = {scores[k]};
    find_largest(most, own);
    if (is_first_of_query) {
      UNROLL
      for (int h = 0; h < QUERIES_HELD; h++) largest[tile * TILE + held_query(h)] = most[h];
    }
  }
  block_sync();
  float most[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    most[h] = LOWEST;
    UNROLL
    for (int c = 0; c < KEY_TILES; c++) most[h] = larger_of(most[h], largest[c * TILE + held_query(h)]);
  }
  weigh_tiles(scores, most, scoring,
              [&](int k, const WeightTile& tile) { weights[(k * WAVES + wave_id()) * WAVE + lane_id()] = tile; });
  UNROLL
  for (int s = 0; s < HELD; s++) finish_values(ways[s], values + s * VALUE_STRIP);
  fetch_wait<0>();
  block_sync();

  float *part[QUERIES_HELD], inverse[QUERIES_HELD];
  CombineFactors sink_factors[QUERIES_HELD];
  if constexpr (!Out::IS_WHOLE) {
    const size_t place = static_cast<size_t>(row) * heads + kv_head * group + first_head;
    UNROLL
    for (int h = 0; h < QUERIES_HELD; h++) {
      part[h] = out.parts + ((place + held_query(h)) * out.splits + block.z) * (HEAD_DIM + 2);
    }
  }
  if (Out::IS_WHOLE || wave_id() == 0) {
    TileSum sums;
    clear(sums);
    UNROLL
    for (int c = 0; c < KEY_TILES; c++) add_weights(sums, weights[c * WAVE + lane_id()]);
    UNROLL
    for (int h = 0; h < QUERIES_HELD; h++) {
      if constexpr (Out::IS_WHOLE) {
        const int query = min_of(held_query(h), queries - 1);
        float highest = largest_score(most[h], scoring), sum = weight_sum(sums, h);
        sink_factors[h] = combine_sink(highest, sum, out.sinks[kv_head * group + first_head + query]);
        inverse[h] = inverse_of(sum);
      } else {
        if (held_query(h) >= queries || !is_first_of_query) continue;
        part[h][0] = largest_score(most[h], scoring);
        part[h][1] = weight_sum(sums, h);
      }
    }
  }
  UNROLL
  for (int first = 0; first < STRIPS; first += HELD) {
    if (first > 0) {
      block_sync();
      UNROLL
      for (int s = 0; s < HELD; s++) {
        start_values<HEAD_DIM>(ways[s], values + s * VALUE_STRIP, cache, start, (first + s) * STRIP);
        finish_values(ways[s], values + s * VALUE_STRIP);
      }
      fetch_group();
      fetch_wait<0>();
      block_sync();
    }
    UNROLL
    for (int k = 0; k < (HELD * STRIP_COLUMNS + WAVES - 1) / WAVES; k++) {
      const int column = k * WAVES + wave_id(), e = first * STRIP_COLUMNS + column;
      if (column >= HELD * STRIP_COLUMNS || e * TILE >= HEAD_DIM) continue;
      const auto strip = values + column / STRIP_COLUMNS * VALUE_STRIP;
      TileSum sums[1];
      clear(sums[0]);
      UNROLL
      for (int c = 0; c < KEY_TILES; c++) {
        const ValueTile value[1] = {
            load_value_tile(strip, TRANSPOSED_PITCH, c * TILE, column % STRIP_COLUMNS * TILE, lane_id_anew())};
        multiply_values(sums, weights[c * WAVE + lane_id()], value);
      }
      if constexpr (Out::IS_WHOLE) {
        UNROLL
        for (int i = 0; i < TILE_VALUES; i++) {
          const int h = held_index(i), query = held_query(h);
          if (query >= queries) continue;
          // Combining begins with zeros: no sum is -0.
          const float combined = combine_value(sums[0].values[i] + 0.0f, 0.0f, sink_factors[h]) * inverse[h];
          const int element = (kv_head * group + first_head + query) * HEAD_DIM + e * TILE + score_key(i);
          store_attended(out.to, row, heads * HEAD_DIM, element, combined);
        }
      } else {
        store_elements(part, queries, 2 + e * TILE, [&](int i) { return sums[0].values[i]; });
      }
    }
  }
  const int attended_splits = splits_attended(position, scoring.window);
  const SplitPlace place{row, attended_splits, kv_head * group + first_head, queries, block_group};
  finish_split<HEAD_DIM>(out, place, heads);
}

}  // namespace forge

#define ATTENTION_TILE_SPLIT(name, type, head_dim)                                                                   \
  KERNEL_RESIDENT(                                                                                                   \
      forge::split_blocks(head_dim), name,                                                                           \
      const float* __restrict qkv,    /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */                      \
      const type* __restrict k_cache, /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */         \
      const type* __restrict v_cache, /* the same */                                                                 \
      float* __restrict parts,        /* [tokens, heads, splits, 2 + head_dim]: largest, sum, values */              \
      const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                     \
      const int32_t* __restrict slots,                                            /* [slots, slot_words] */          \
      int slot_words, int heads, int kv_heads, int head_tiles, int splits, int window, float scale, float softcap) { \
    forge::attention_tile_split<head_dim>(BLOCK_INDEX, forge::Prepared{}, forge::SplitParts{parts, splits}, qkv,     \
                                          k_cache, v_cache, row_position, row_slot, slots, slot_words, heads,        \
                                          kv_heads, head_tiles, {scale, softcap, window});                           \
  }
