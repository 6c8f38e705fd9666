// attention_tile: causal attention of tiles of prompt rows over the paged KV cache, on matrix units
//
// Dao, "FlashAttention-2" (2023). The rows of a tile are consecutive positions of one slot; they and the query heads of
// a KV head share each chunk of keys and values. A wave owns sixteen queries with all of their head: scores become
// weights in its own registers. A row's bits depend on its own context alone: they are those of attention_tile_split
// and attention_combine.
#pragma once

#if FORGE_WAVE == 32
#define FORGE_DOTS_WRITTEN_OUT
#endif
#include "attention_tile.h"

namespace forge {

// A wave's registers hold two strips of the values of sixteen queries: of larger heads PARTS waves share them, each of
// which computes their scores. So a block takes ITEMS tiles of sixteen queries, and a wave OWNED of ITEMS * PARTS
// parts.
template <int HEAD_DIM>
constexpr int PARTS = HEAD_STRIPS<HEAD_DIM> <= 2 ? 1 : 2;
template <int HEAD_DIM>
constexpr int PART_STRIPS = (HEAD_STRIPS<HEAD_DIM> + PARTS<HEAD_DIM> - 1) / PARTS<HEAD_DIM>;
constexpr int ALL_PARTS = ATTENTION_TILE_QUERIES / TILE, OWNED = ALL_PARTS / WAVES;
template <int HEAD_DIM>
constexpr int ITEMS = ALL_PARTS / PARTS<HEAD_DIM>;
// Strips of keys and values pass through LDS, of which AHEAD are on their way while one is computed on; where queries
// lie there, too, one has to make room first.
constexpr int STRIP_STAGES = HOLDS_QUERIES ? FETCH_STAGES - 1 : 1;
constexpr int AHEAD = STRIP_STAGES > 1 ? STRIP_STAGES - 1 : 1;
// Tiles of keys whose products are one run of instructions, left out as one where no query attends to them: as many as
// gfx1100 has registers for, by clang 19 and by clang 22.
#if defined(__clang_major__) && __clang_major__ < 22
constexpr int Q8_KEY_GROUP = 1;
#else
constexpr int Q8_KEY_GROUP = 4;
#endif
template <int HEAD_DIM, class T>
constexpr int KEY_GROUP = HOLDS_QUERIES || HEAD_DIM <= 64 ? 2
                          : sizeof(T) == sizeof(half_t)   ? (HEAD_DIM == 256 ? 1 : 4)
                          : HEAD_DIM == 256               ? 2
                                                          : Q8_KEY_GROUP;
static_assert(OWNED * WAVES == ALL_PARTS && KEY_TILES % 4 == 0, "whole items, whole groups");

// Keys that sixteen queries of a wave attend to.
struct QueryRanges {
  KeyRange held[QUERIES_HELD];
  KeyRange first, last;  // of the first query and of the last; empty where there is no query
};
// Queries from `first_query` on of a tile that has `queries`, `group` of a row, the first at `first_position`.
DEVICE void find_ranges(QueryRanges& ranges, int first_query, int queries, int first_position, int group, int window) {
  const auto range_of = [&](int query) {
    return attended(first_position + min_of(query, queries - 1) / group, window);
  };
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) ranges.held[h] = range_of(first_query + held_query(h));
  const auto same_range_of = [&](int query) {
    return attended(same_in_wave(first_position + min_of(query, queries - 1) / group), window);
  };
  ranges.first = same_range_of(first_query);
  ranges.last = same_range_of(first_query + TILE - 1);
  if (first_query >= queries) ranges.last.end = 0;
}

// Number of tiles of a chunk's keys that some query attends to, and whether all queries attend to all keys.
DEVICE int tiles_reached(const QueryRanges& ranges, int start) {
  return start + SPLIT <= ranges.first.first ? 0 : (min_of(ranges.last.end - start, SPLIT) + TILE - 1) / TILE;
}
DEVICE bool attends_to_all(const QueryRanges& ranges, int start) {
  return start + SPLIT <= ranges.first.end && start >= ranges.last.first;
}

// Sixteen queries of a wave, and its part of their values.
template <int HEAD_DIM>
struct Item {
  Fragment<half_t> query[HOLDS_QUERIES ? HEAD_DEPTHS<HEAD_DIM> : 1];
  QueryRanges ranges;
  QueryStats stats;
  TileSum values[PART_STRIPS<HEAD_DIM> * STRIP_COLUMNS];
};

// Adds a strip of the head to the scores.
template <class T, int HEAD_DIM, class Lds>
DEVICE void score_strip(TileSum (&scores)[KEY_TILES], const Item<HEAD_DIM>& item, Lds queries, Lds keys, int strip,
                        int tiles) {
  constexpr int GROUP = KEY_GROUP<HEAD_DIM, T>;
  UNROLL
  for (int c = 0; c < KEY_TILES; c += GROUP) {
    if (c >= tiles) continue;
    const int lane = lane_id_anew();
    UNROLL
    for (int d = 0; d < STRIP / TILE_DEPTH; d++) {
      if (strip * STRIP + d * TILE_DEPTH >= HEAD_DIM) continue;
      Fragment<half_t> key[GROUP];
      UNROLL
      for (int g = 0; g < GROUP; g++) load_strip(key[g], keys, (c + g) * TILE, d * TILE_DEPTH, lane);
      if constexpr (HOLDS_QUERIES) {
        multiply_scores(scores, c, item.query[strip * (STRIP / TILE_DEPTH) + d], key);
      } else {
        Fragment<half_t> query;
        load_strip(query, queries + strip * QUERY_STRIP, 0, d * TILE_DEPTH, lane);
        multiply_scores(scores, c, query, key);
      }
    }
  }
}

// Makes weights of the scores of a chunk.
DEVICE void weigh_chunk(WeightTile (&weights)[KEY_TILES], float (&largest)[QUERIES_HELD], TileSum (&scores)[KEY_TILES],
                        const QueryRanges& ranges, int start, const Scoring& scoring) {
  if (!attends_to_all(ranges, start)) {
    UNROLL
    for (int c = 0; c < KEY_TILES; c++) mask_scores(scores[c], start + c * TILE, ranges.held);
  }
  find_largest(largest, scores);
  weigh_tiles(scores, largest, scoring, [&](int c, const WeightTile& tile) { weights[c] = tile; });
}
// Combines a chunk's statistics; values are combined by `factors`.
DEVICE void combine_chunk(QueryStats& stats, CombineFactors (&factors)[QUERIES_HELD],
                          const WeightTile (&weights)[KEY_TILES], const float (&largest)[QUERIES_HELD],
                          const Scoring& scoring) {
  TileSum sums;
  clear(sums);
  UNROLL
  for (int c = 0; c < KEY_TILES; c++) add_weights(sums, weights[c]);
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    // Nothing is combined into a query that attends to no key here. Without a branch: within one, compilers multiply
    // tiles with some of the lanes.
    const float most = largest_score(largest[h], scoring);
    factors[h] = combine_stats(stats.largest[h], stats.sum[h], most, weight_sum(sums, h));
  }
}

// Combines strip `strip` of the chunk's result, strip `own` of the wave's, into the item's.
template <class T, int HEAD_DIM, class Lds>
DEVICE void combine_strip(Item<HEAD_DIM>& item, const WeightTile (&weights)[KEY_TILES],
                          const CombineFactors (&factors)[QUERIES_HELD], Lds values, int strip, int own, int tiles) {
  constexpr int COLUMNS = STRIP_COLUMNS, GROUP = KEY_GROUP<HEAD_DIM, T>;
  TileSum sums[COLUMNS];
  UNROLL
  for (int e = 0; e < COLUMNS; e++) clear(sums[e]);
  UNROLL
  for (int c = 0; c < KEY_TILES; c += GROUP) {
    if (c >= tiles) continue;
    const int lane = lane_id_anew();
    UNROLL
    for (int g = 0; g < GROUP; g++) {
      ValueTile value[COLUMNS];
      UNROLL
      for (int e = 0; e < COLUMNS; e++)
        value[e] = load_value_tile(values, TRANSPOSED_PITCH, (c + g) * TILE, e * TILE, lane);
      multiply_values(sums, weights[c + g], value);
    }
  }
  UNROLL
  for (int e = 0; e < COLUMNS; e++) {
    if (strip * STRIP + e * TILE >= HEAD_DIM) continue;
    TileSum& total = item.values[own * COLUMNS + e];
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      total.values[i] = combine_value(total.values[i], sums[e].values[i], factors[held_index(i)]);
    }
  }
}

// Grid: x = KV heads, y = tiles.
template <int HEAD_DIM, class T>
DEVICE void attention_tile(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                           const T* __restrict v_cache, float* __restrict out, const int32_t* __restrict tiles,
                           const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                           const int32_t* __restrict slots, int slot_words, const float* __restrict sinks, int heads,
                           int kv_heads, Scoring scoring) {
  // Steps of a chunk: strips of its keys, then strips of its values.
  constexpr int STRIPS = HEAD_STRIPS<HEAD_DIM>, STEPS = 2 * STRIPS;
  static_assert(AHEAD <= STEPS, "what is on its way is of this chunk or the next");
  const int kv_head = block.x, group = heads / kv_heads;
  const int first_row = tiles[2 * block.y], rows = tiles[2 * block.y + 1], queries = rows * group;
  const int first_position = row_position[first_row], length = first_position + rows;
  const TileCache<T> cache{k_cache,  v_cache, block_table_of(slots, row_slot[first_row], slot_words),
                           kv_heads, kv_head, window_begin(first_position, scoring.window),
                           length};
  const int begin = cache.first / SPLIT * SPLIT;
  SHARED(Piece, ring, (STRIP_STAGES * CHUNK_STRIP));
  SHARED(Piece, query_strips, (HOLDS_QUERIES ? 1 : ITEMS<HEAD_DIM> * STRIPS * QUERY_STRIP));

  // The strip of step `step` of the chunk from `start` on, which may be a step of the next.
  struct Way {
    StripOnItsWay<T> keys;
    ValuesOnTheirWay<T> values;
  };
  int stage = 0;
  const auto stage_at = [&](int ahead) {
    const int at = stage + ahead;
    return ring + (STRIP_STAGES == 1 ? 0 : at < STRIP_STAGES ? at : at - STRIP_STAGES) * CHUNK_STRIP;
  };
  const auto start_step = [&](Way& way, int start, int step, int ahead) {
    start += step / STEPS * SPLIT;
    const int strip = step % STEPS;
    if (start < length) {
      if (strip < STRIPS) {
        start_strip<HEAD_DIM>(way.keys, stage_at(ahead), cache, cache.k, start, strip * STRIP);
      } else {
        start_values<HEAD_DIM>(way.values, stage_at(ahead), cache, start, (strip - STRIPS) * STRIP);
      }
    }
    fetch_group();
  };
  const auto finish_step = [&](const Way& way, int start, int step, int ahead) {
    if (start + step / STEPS * SPLIT >= length) return;
    if (step % STEPS < STRIPS) {
      finish_strip(way.keys, stage_at(ahead));
    } else {
      finish_values(way.values, stage_at(ahead));
    }
  };

  UNROLL
  for (int s = 0; s < AHEAD; s++) {
    Way way;
    start_step(way, begin, s, s);
    finish_step(way, begin, s, s);
  }
  const auto query_at = [&](int at) {
    const size_t head = static_cast<size_t>(first_row + at / group) * (heads + 2 * kv_heads) + kv_head * group;
    return qkv + (head + at % group) * HEAD_DIM;
  };
  if constexpr (!HOLDS_QUERIES) bring_queries<HEAD_DIM, ITEMS<HEAD_DIM>>(query_strips, queries, query_at);
  // Tile of sixteen queries of the wave's part o, and which of its parts that is.
  const auto tile_at = [&](int o) { return (o * WAVES + wave_id()) / PARTS<HEAD_DIM>; };
  const auto part_at = [&](int o) { return (o * WAVES + wave_id()) % PARTS<HEAD_DIM>; };
  Item<HEAD_DIM> items[OWNED];
  UNROLL
  for (int o = 0; o < OWNED; o++) {
    Item<HEAD_DIM>& item = items[o];
    const int first_query = tile_at(o) * TILE;
    if constexpr (HOLDS_QUERIES)
      load_queries<HEAD_DIM>(item.query, queries - first_query, [&](int i) { return query_at(first_query + i); });
    find_ranges(item.ranges, first_query, queries, first_position, group, scoring.window);
    clear(item.stats);
    UNROLL
    for (int e = 0; e < PART_STRIPS<HEAD_DIM> * STRIP_COLUMNS; e++) clear(item.values[e]);
  }

  for (int start = begin; start < length; start += SPLIT) {
    // An item that no key of the chunk is for combines zeros: a branch around all of it would keep its registers.
    TileSum scores[OWNED][KEY_TILES];
    WeightTile weights[OWNED][KEY_TILES];
    CombineFactors factors[OWNED][QUERIES_HELD];
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      UNROLL
      for (int c = 0; c < KEY_TILES; c++) clear(scores[o][c]);
    }
    const auto begin_step = [&](Way& way, int step) {
      fetch_wait<AHEAD - 1>();
      block_sync();
      start_step(way, start, step + AHEAD, AHEAD);
    };
    const auto end_step = [&](const Way& way, int step) {
      if (STRIP_STAGES == 1) block_sync();
      finish_step(way, start, step + AHEAD, AHEAD);
      stage = stage + 1 < STRIP_STAGES ? stage + 1 : 0;
    };
    const auto score = [&](int strip) {
      UNROLL
      for (int o = 0; o < OWNED; o++) {
        const auto own_queries = query_strips + (HOLDS_QUERIES ? 0 : tile_at(o) * STRIPS * QUERY_STRIP);
        const int reached = tiles_reached(items[o].ranges, start);
        score_strip<T>(scores[o], items[o], own_queries, stage_at(0), strip, reached);
      }
    };
    UNROLL
    for (int s = 0; s < STRIPS - 1; s++) {
      Way way;
      begin_step(way, s);
      score(s);
      end_step(way, s);
    }
    // The last strip by itself: compilers unroll loops of so much code only in part.
    Way way;
    begin_step(way, STRIPS - 1);
    score(STRIPS - 1);
    UNROLL
    for (int o = 0; o < OWNED; o++) {
      float largest[QUERIES_HELD];
      schedule_here();
      weigh_chunk(weights[o], largest, scores[o], items[o].ranges, start, scoring);
      combine_chunk(items[o].stats, factors[o], weights[o], largest, scoring);
      schedule_here();
    }
    end_step(way, STRIPS - 1);
    UNROLL
    for (int s = 0; s < STRIPS; s++) {
      Way way;
      begin_step(way, STRIPS + s);
      UNROLL
      for (int o = 0; o < OWNED; o++) {
        constexpr int OWN = PART_STRIPS<HEAD_DIM>;
        if (PARTS < HEAD_DIM >> 1 && s / OWN != part_at(o)) continue;
        const int reached = tiles_reached(items[o].ranges, start);
        combine_strip<T>(items[o], weights[o], factors[o], stage_at(0), s, s % OWN, reached);
      }
      end_step(way, STRIPS + s);
    }
  }

  UNROLL
  for (int o = 0; o < OWNED; o++) {
    Item<HEAD_DIM>& item = items[o];
    const int first_query = tile_at(o) * TILE, first_element = part_at(o) * PART_STRIPS<HEAD_DIM> * STRIP;
    float inverse[QUERIES_HELD];
    CombineFactors factors[QUERIES_HELD];
    float* to[QUERIES_HELD];
    UNROLL
    for (int h = 0; h < QUERIES_HELD; h++) {
      const int at = first_query + held_query(h), head = kv_head * group + at % group;
      to[h] = out + (static_cast<size_t>(first_row + at / group) * heads + head) * HEAD_DIM;
      factors[h] = combine_sink(item.stats.largest[h], item.stats.sum[h], sinks[head]);
      inverse[h] = inverse_of(item.stats.sum[h]);
    }
    UNROLL
    for (int e = 0; e < PART_STRIPS<HEAD_DIM> * STRIP_COLUMNS; e++) {
      const int element = first_element + e * TILE;
      if (element >= HEAD_DIM) continue;
      store_elements(to, queries - first_query, element, [&](int i) {
        const int h = held_index(i);
        return combine_value(item.values[e].values[i], 0.0f, factors[h]) * inverse[h];
      });
    }
  }
}

}  // namespace forge

// Attention of a tile [first row, rows]: its rows belong to one slot, at positions that rise by 1, and are no more than
// ATTENTION_TILE_QUERIES * kv_heads / heads, of heads of more than 128 elements half as many.
#define ATTENTION_TILE(name, type, head_dim)                                                                       \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */              \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */ \
         const type* __restrict v_cache,    /* the same */                                                         \
         float* __restrict out,             /* [tokens, heads, head_dim] */                                        \
         const int32_t* __restrict tiles,   /* [tiles, 2] */                                                       \
         const int32_t* __restrict row_position,        /* [tokens] */                                             \
         const int32_t* __restrict row_slot,            /* [tokens] */                                             \
         const int32_t* __restrict slots,               /* [slots, slot_words] */                                  \
         int slot_words, const float* __restrict sinks, /* [heads] */                                              \
         int heads, int kv_heads, int window, float scale, float softcap) {                                        \
    forge::attention_tile<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, tiles, row_position, row_slot, slots, \
                                    slot_words, sinks, heads, kv_heads, {scale, softcap, window});                 \
  }
