// Attention on matrix units with heads of more than 256 elements: global layers of Gemma 4 and latent attention
//
// A block takes sixteen query heads of a KV head of one row, as attention_tile_split does. Queries lie in LDS, and one
// strip of the values at a time. Either of one chunk, for attention_combine to combine, or of all, in order: a row's
// bits are the same.
#pragma once

#include "attention_tile_splits.h"

namespace forge {

// Products over a head whose keys a thread asks for at a time: the most that divide the head and are of `pieces` at
// most.
template <int HEAD_DIM>
constexpr int asked_depths(int pieces) {
  int depths = HEAD_DEPTHS<HEAD_DIM>;
  while (HEAD_DEPTHS<HEAD_DIM> % depths != 0 || (depths > 1 && depths * FRAGMENT_PIECES > pieces)) depths--;
  return depths;
}
// Pieces that registers hold of a split, and beside what is attended to of all of a context.
constexpr int ASKED_OF_SPLIT = 18, ASKED_OF_ALL = 8;

// Tiles of sixteen elements of a head, and those that a wave owns: every WAVES-th.
template <int HEAD_DIM>
constexpr int ELEMENT_TILES = HEAD_DIM / TILE;
template <int HEAD_DIM>
constexpr int OWN_ELEMENTS = (ELEMENT_TILES<HEAD_DIM> + WAVES - 1) / WAVES;

// LDS of a block: queries, a strip of values, weights, and the largest scores.
template <class Pieces, class Weights, class Scores>
struct LargeLds {
  Pieces queries, values;
  Weights weights;
  Scores largest;
};

// Attention of the queries in LDS over the chunk from `start` on. `weighed(largest, sums)` gets the largest products
// and the sums of weights, `attended(own, e, values)` each tile of elements e that the wave owns.
template <int HEAD_DIM, int ASKED_PIECES, class T, class Lds, class Weighed, class Attended>
DEVICE void attend_chunk(const Lds& lds, const TileCache<T>& cache, int start, const KeyRange& range,
                         const Scoring& scoring, Weighed weighed, Attended attended) {
  constexpr int DEPTHS = HEAD_DEPTHS<HEAD_DIM>, STRIPS = HEAD_STRIPS<HEAD_DIM>,
                ASKED = asked_depths<HEAD_DIM>(ASKED_PIECES);
  constexpr int STRIP_DEPTHS = STRIP / TILE_DEPTH;
  static_assert(HEAD_DIM % STRIP == 0 && TILE == KV_BLOCK_TOKENS, "whole strips; keys of a tile in one KV block");
  static_assert(WAVES % STRIP_COLUMNS == 0, "a wave has one column of a strip, or none");
  KeyRange ranges[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) ranges[h] = range;

  TileSum scores[OWN_KEYS];
  UNROLL
  for (int k = 0; k < OWN_KEYS; k++) clear(scores[k]);
  Fragment<half_t> keys[ASKED][OWN_KEYS];
  UNROLL
  for (int d = 0; d < DEPTHS; d++) {
    if (d % ASKED == 0) {
      if (d > 0) schedule_here();
      UNROLL
      for (int k = 0; k < OWN_KEYS; k++) {
        const int first_key = readable(cache, start + (k * WAVES + wave_id()) * TILE) / TILE * TILE;
        UNROLL
        for (int p = 0; p < FRAGMENT_PIECES; p++) {
          UNROLL
          for (int a = 0; a < ASKED; a++) {
            const int element = (d + a) * TILE_DEPTH + piece_k(p);
            keys[a][k].pieces[p] = load_vector<HEAD_DIM>(cache, cache.k, first_key + piece_row(p), element);
          }
        }
      }
    }
    Fragment<half_t> query;
    load_strip(query, lds.queries + d / STRIP_DEPTHS * QUERY_STRIP, 0, d % STRIP_DEPTHS * TILE_DEPTH, lane_id_anew());
    multiply_scores(scores, 0, query, keys[d % ASKED]);
  }

  const bool is_first_of_query = lane_id() / QUERY_LANE_STEP % QUERY_LANES == 0;
  UNROLL
  for (int k = 0; k < OWN_KEYS; k++) {
    const int tile = k * WAVES + wave_id();
    mask_scores(scores[k], start + tile * TILE, ranges);
    float most[QUERIES_HELD];
    const TileSum own[1] = {scores[k]};
    find_largest(most, own);
    if (is_first_of_query) {
      UNROLL
      for (int h = 0; h < QUERIES_HELD; h++) lds.largest[tile * TILE + held_query(h)] = most[h];
    }
  }
  // All waves have done with the values of the chunk before.
  block_sync();
  ValuesOnTheirWay<T> way;
  start_values<HEAD_DIM>(way, lds.values, cache, start, 0);
  fetch_group();
  float most[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    most[h] = LOWEST;
    UNROLL
    for (int c = 0; c < KEY_TILES; c++) most[h] = larger_of(most[h], lds.largest[c * TILE + held_query(h)]);
  }
  weigh_tiles(scores, most, scoring,
              [&](int k, const WeightTile& tile) { lds.weights[(k * WAVES + wave_id()) * WAVE + lane_id()] = tile; });
  finish_values(way, lds.values);
  fetch_wait<0>();
  block_sync();
  TileSum sums;
  clear(sums);
  UNROLL
  for (int c = 0; c < KEY_TILES; c++) add_weights(sums, lds.weights[c * WAVE + lane_id()]);
  weighed(most, sums);

  UNROLL
  for (int s = 0; s < STRIPS; s++) {
    if (s > 0) {
      block_sync();
      start_values<HEAD_DIM>(way, lds.values, cache, start, s * STRIP);
      finish_values(way, lds.values);
      fetch_group();
      fetch_wait<0>();
      block_sync();
    }
    // The wave's column of the strip; some waves have none.
    const int c = wave_id() - s * STRIP_COLUMNS % WAVES;
    if (c < 0 || c >= STRIP_COLUMNS) continue;
    TileSum values[1];
    clear(values[0]);
    UNROLL
    for (int k = 0; k < KEY_TILES; k++) {
      const ValueTile value[1] = {load_value_tile(lds.values, TRANSPOSED_PITCH, k * TILE, c * TILE, lane_id_anew())};
      multiply_values(values, lds.weights[k * WAVE + lane_id()], value);
    }
    attended(s * STRIP_COLUMNS / WAVES, s * STRIP_COLUMNS + c, values[0]);
  }
}

// Place of a block's queries: the row, its KV head, the first of its query heads, and their number.
struct LargePlace {
  int row, position, group, kv_head, first_head, queries;
};
DEVICE LargePlace large_place(Dim3 block, const int32_t* row_position, int heads, int kv_heads, int head_tiles) {
  const int group = heads / kv_heads, first_head = block.x % head_tiles * TILE;
  return LargePlace{
      static_cast<int>(block.y),       row_position[block.y], group, static_cast<int>(block.x) / head_tiles, first_head,
      min_of(group - first_head, TILE)};
}

template <int HEAD_DIM, class Lds>
DEVICE void bring_large_queries(Lds strips, const LargePlace& at, const float* qkv, int heads, int kv_heads) {
  const float* vectors = qkv + static_cast<size_t>(at.row) * (heads + 2 * kv_heads) * HEAD_DIM;
  const float* queries = vectors + (at.kv_head * at.group + at.first_head) * HEAD_DIM;
  bring_queries<HEAD_DIM, 1>(strips, at.queries, [&](int query) { return queries + query * HEAD_DIM; });
  block_sync();
}

// Grid: x = KV heads * tiles of their query heads, y = tokens, z = splits from the first that the row attends to.
// Splits past the row's position are not written.
template <int HEAD_DIM, class T, class Lds>
DEVICE void attend_split_of_large(const Lds& lds, Dim3 block, const float* qkv, const T* k_cache, const T* v_cache,
                                  float* parts, const int32_t* row_position, const int32_t* row_slot,
                                  const int32_t* slots, int slot_words, int heads, int kv_heads, int head_tiles,
                                  int splits, const Scoring& scoring) {
  const LargePlace at = large_place(block, row_position, heads, kv_heads, head_tiles);
  const int length = at.position + 1, start = (first_split(at.position, scoring.window) + block.z) * SPLIT;
  if (start >= length) return;
  const KeyRange range = attended(at.position, scoring.window);
  const TileCache<T> cache{
      k_cache, v_cache, block_table_of(slots, row_slot[at.row], slot_words), kv_heads, at.kv_head, range.first, length};
  bring_large_queries<HEAD_DIM>(lds.queries, at, qkv, heads, kv_heads);
  float* part[QUERIES_HELD];
  const size_t place = static_cast<size_t>(at.row) * heads + at.kv_head * at.group + at.first_head;
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++)
    part[h] = parts + ((place + held_query(h)) * splits + block.z) * (HEAD_DIM + 2);
  const bool is_first_of_query = lane_id() / QUERY_LANE_STEP % QUERY_LANES == 0;
  attend_chunk<HEAD_DIM, ASKED_OF_SPLIT>(
      lds, cache, start, range, scoring,
      [&](const float(&most)[QUERIES_HELD], const TileSum& sums) {
        if (wave_id() != 0) return;
        UNROLL
        for (int h = 0; h < QUERIES_HELD; h++) {
          if (held_query(h) >= at.queries || !is_first_of_query) continue;
          part[h][0] = largest_score(most[h], scoring);
          part[h][1] = weight_sum(sums, h);
        }
      },
      [&](int, int e, const TileSum& values) {
        store_elements(part, at.queries, 2 + e * TILE, [&](int i) { return values.values[i]; });
      });
}

// Grid: x = KV heads * tiles of their query heads, y = tokens.
template <int HEAD_DIM, class T, class Lds>
DEVICE void attend_all_of_large(const Lds& lds, Dim3 block, const float* qkv, const T* k_cache, const T* v_cache,
                                float* out, const int32_t* row_position, const int32_t* row_slot, const int32_t* slots,
                                int slot_words, const float* sinks, int heads, int kv_heads, int head_tiles,
                                const Scoring& scoring) {
  const LargePlace at = large_place(block, row_position, heads, kv_heads, head_tiles);
  const int length = at.position + 1;
  const KeyRange range = attended(at.position, scoring.window);
  const TileCache<T> cache{
      k_cache, v_cache, block_table_of(slots, row_slot[at.row], slot_words), kv_heads, at.kv_head, range.first, length};
  bring_large_queries<HEAD_DIM>(lds.queries, at, qkv, heads, kv_heads);
  QueryStats stats;
  clear(stats);
  CombineFactors factors[QUERIES_HELD];
  TileSum totals[OWN_ELEMENTS<HEAD_DIM>];
  UNROLL
  for (int e = 0; e < OWN_ELEMENTS<HEAD_DIM>; e++) clear(totals[e]);
  for (int start = first_split(at.position, scoring.window) * SPLIT; start < length; start += SPLIT) {
    attend_chunk<HEAD_DIM, ASKED_OF_ALL>(
        lds, cache, start, range, scoring,
        [&](const float(&most)[QUERIES_HELD], const TileSum& sums) {
          UNROLL
          for (int h = 0; h < QUERIES_HELD; h++) {
            factors[h] =
                combine_stats(stats.largest[h], stats.sum[h], largest_score(most[h], scoring), weight_sum(sums, h));
          }
        },
        [&](int own, int, const TileSum& values) {
          UNROLL
          for (int i = 0; i < TILE_VALUES; i++) {
            totals[own].values[i] = combine_value(totals[own].values[i], values.values[i], factors[held_index(i)]);
          }
        });
  }
  const int first = at.kv_head * at.group + at.first_head;
  float *to[QUERIES_HELD], inverse[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    const int query = min_of(held_query(h), at.queries - 1);
    to[h] = out + (static_cast<size_t>(at.row) * heads + first + held_query(h)) * HEAD_DIM;
    factors[h] = combine_sink(stats.largest[h], stats.sum[h], sinks[first + query]);
    inverse[h] = inverse_of(stats.sum[h]);
  }
  UNROLL
  for (int own = 0; own < OWN_ELEMENTS<HEAD_DIM>; own++) {
    const int e = own * WAVES + wave_id();
    if (e >= ELEMENT_TILES<HEAD_DIM>) continue;
    store_elements(to, at.queries, e * TILE, [&](int i) {
      const int h = held_index(i);
      return combine_value(totals[own].values[i], 0.0f, factors[h]) * inverse[h];
    });
  }
}

}  // namespace forge
