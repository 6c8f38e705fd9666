// attention_wide of heads of more than 128 elements: two groups of four waves share the values of 64 queries
//
// Each group computes the scores of all queries, which lie in LDS, and has half of their elements: so its registers
// hold the scores, then a chunk's sums, beside the totals. Keys and values of a chunk take turns in LDS. A row's bits
// are those of attention_tile.
#pragma once

#include "attention_wide.h"

namespace forge {

// Waves of a group, and their queries. In LDS: three halves of chunks, keys or values; then the queries, as keys are.
constexpr int GROUP_WAVES = 4, GROUP_QUERIES = GROUP_WAVES * TILE, QUERY_PANEL = GROUP_QUERIES * STRIP_PIECES;
constexpr int WIDE_PARTS = 2;
template <int HEAD_DIM>
constexpr int HALF_STAGE = PANELS<HEAD_DIM> * PANEL;
static_assert((WIDE_STAGES * HALF_STAGE<256> + PANELS<256> * QUERY_PANEL) * sizeof(Piece) <= ATTENTION_WIDE_PARTS_LDS,
              "three halves of chunks, and the queries");
static_assert(WIDE_PARTS * GROUP_WAVES == WAVES, "a group a part");

// Elements of a piece of sixteen-bit floats as multiply_scores takes them: key_piece and key_half inverted.
DEVICE int piece_four(int piece, int half) { return piece / 4 * 8 + piece % 2 * 4 + half * 2 + piece % 4 / 2; }

// Queries of a tile as rows of a product: all threads that multiply, together.
template <int HEAD_DIM, class RowOf>
DEVICE void bring_wide_queries(Piece* lds, int queries, RowOf row_of) {
  constexpr int PIECES = HEAD_DIM / PIECE;
  for (int i = thread_id(); i < GROUP_QUERIES * PIECES; i += BLOCK) {
    const int query = i / PIECES, p = i % PIECES;
    Piece piece = zero_piece();
    if (query < queries) {
      UNROLL
      for (int half = 0; half < 2; half++) {
        const Floats4 four = load_aligned<Floats4>(row_of(query) + piece_four(p, half) * 4);
        piece.words[2 * half] = to_halves(four.f[0], four.f[1]);
        piece.words[2 * half + 1] = to_halves(four.f[2], four.f[3]);
      }
    }
    lds[p / STRIP_PIECES * QUERY_PANEL + panel_slot(query, p % STRIP_PIECES)] = piece;
  }
}

// Grid: x = KV heads, y = tiles.
template <int HEAD_DIM>
DEVICE void attention_wide_parts(Dim3 block, const float* __restrict qkv, const half_t* __restrict k_cache,
                                 const half_t* __restrict v_cache, float* __restrict out,
                                 const int32_t* __restrict tiles, const int32_t* __restrict row_position,
                                 const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,
                                 const float* __restrict sinks, int heads, int kv_heads, Scoring scoring) {
  constexpr int STEPS_OF_HEAD = HEAD_DIM / 16, STEPS_OF_PANEL = STRIP / 16, PART = HEAD_DIM / WIDE_PARTS;
  extern __shared__ __align__(1024) Piece wide_lds[];
  Piece* const query_lds = wide_lds + WIDE_STAGES * HALF_STAGE<HEAD_DIM>;
  const int kv_head = block.x, group = heads / kv_heads;
  const int first_row = tiles[2 * block.y], rows = tiles[2 * block.y + 1], queries = rows * group;
  const int first_position = row_position[first_row], length = first_position + rows;
  const TileCache<half_t> cache{k_cache,  v_cache, block_table_of(slots, row_slot[first_row], slot_words),
                                kv_heads, kv_head, window_begin(first_position, scoring.window),
                                length};
  const int begin = cache.first / SPLIT * SPLIT;
  SHARED(uint64_t, full, WIDE_STAGES);
  SHARED(uint64_t, empty, WIDE_STAGES);
  if (thread_id() < WIDE_STAGES) {
    barrier_begin(full + thread_id(), WIDE_GROUP);
    barrier_begin(empty + thread_id(), WAVES);
  }
  show_barriers();
  block_sync();
  if (thread_id() >= BLOCK) {
    give_registers();
    const int thread = thread_id() - BLOCK, halves = 2 * ((length - begin + SPLIT - 1) / SPLIT);
    // A lane has one of a chunk's blocks.
    const auto block_of = [&](int start) {
      const int position = start + lane_id() % (SPLIT / KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS;
      return cache.block_table[readable(cache, position) / KV_BLOCK_TOKENS];
    };
    int stage = 0, parity = 1, blocks = 0, next = block_of(begin);
    ROLLED
    for (int i = 0; i <= halves; i++) {
      if (i < halves) {
        const int start = begin + i / 2 * SPLIT;
        Piece* const to = wide_lds + stage * HALF_STAGE<HEAD_DIM>;
        barrier_wait(empty + stage, parity);
        if (i % 2 == 0) {
          blocks = next;
          next = block_of(start + SPLIT);
          start_chunk<HEAD_DIM, true, false>(to, nullptr, cache, blocks, start, thread);
        } else {
          start_chunk<HEAD_DIM, false, true>(nullptr, to, cache, blocks, start, thread);
        }
      }
      fetch_group();
      if (i > 0) {
        fetch_wait<1>();
        show_fetched();
        barrier_arrive(full + (stage == 0 ? WIDE_STAGES : stage) - 1);
      }
      if (++stage == WIDE_STAGES) {
        stage = 0;
        parity ^= 1;
      }
    }
    return;
  }

  take_registers();
  const int first_query = wave_id() % GROUP_WAVES * TILE, part = wave_id() / GROUP_WAVES;
  QueryRanges ranges;
  find_ranges(ranges, first_query, queries, first_position, group, scoring.window);
  bring_wide_queries<HEAD_DIM>(query_lds, queries, [&](int query) {
    const size_t head = static_cast<size_t>(first_row + query / group) * (heads + 2 * kv_heads) + kv_head * group;
    return qkv + (head + query % group) * HEAD_DIM;
  });
  show_fetched();
  group_sync(1, BLOCK);
  const auto head_of = [&](int query) { return kv_head * group + query % group; };
  // Loaded early: at its end a block would wait for memory.
  float sink[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    const int at = first_query + held_query(h);
    sink[h] = at < queries ? sinks[head_of(at)] : LOWEST;
  }
  QueryStats stats;
  clear(stats);
  WideSum<PART> totals;
  UNROLL
  for (int i = 0; i < PART / 2; i++) totals.values[i] = 0.0f;

  int stage = 0, parity = 0;
  // The half of a chunk that is next, and room for another where it was.
  const auto wait_for_half = [&]() {
    barrier_wait(full + stage, parity);
    return wide_lds + stage * HALF_STAGE<HEAD_DIM>;
  };
  const auto leave_half = [&]() {
    if (lane_id() == 0) barrier_arrive(empty + stage);
    if (++stage == WIDE_STAGES) {
      stage = 0;
      parity ^= 1;
    }
  };
  ROLLED
  for (int start = begin; start < length; start += SPLIT) {
    const Piece* keys = wait_for_half();
    WideSum<SPLIT> products;
    wide_fence();
    UNROLL
    for (int s = 0; s < STEPS_OF_HEAD; s++) {
      const int panel = s / STEPS_OF_PANEL, step = s % STEPS_OF_PANEL * 2;
      multiply_rows(products, columns_at(query_lds + panel * QUERY_PANEL, 1024) + step,
                    columns_at(keys + panel * PANEL, 1024) + step, s > 0);
    }
    wide_commit();
    wide_wait<0>();
    settle(products);
    leave_half();

    TileSum scores[KEY_TILES];
    UNROLL
    for (int i = 0; i < SPLIT / 2; i++) scores[i / TILE_VALUES].values[i % TILE_VALUES] = products.values[i];
    WeightTile weights[KEY_TILES];
    float largest[QUERIES_HELD];
    weigh_chunk(weights, largest, scores, ranges, start, scoring);

    const Piece* values = wait_for_half() + part * (PART / STRIP) * PANEL;
    WideSum<PART> sums;
    wide_fence();
    UNROLL
    for (int k = 0; k < KEY_TILES; k++) {
      multiply_transposed(sums, weights[k].words, values_at(values + k * TILE * STRIP_PIECES), k > 0);
    }
    wide_commit();
    CombineFactors factors[QUERIES_HELD];
    combine_chunk(stats, factors, weights, largest, scoring);
    wide_wait<0>();
    settle(sums);
    leave_half();
    UNROLL
    for (int i = 0; i < PART / 2; i++) {
      totals.values[i] = combine_value(totals.values[i], sums.values[i], factors[held_index(i)]);
    }
  }

  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    const int at = first_query + held_query(h);
    if (at >= queries) continue;
    const size_t place = static_cast<size_t>(first_row + at / group) * heads + head_of(at);
    const CombineFactors factors = combine_sink(stats.largest[h], stats.sum[h], sink[h]);
    const float inverse = inverse_of(stats.sum[h]);
    const auto value = [&](int i) { return combine_value(totals.values[i], 0.0f, factors) * inverse; };
    UNROLL
    for (int i = 2 * h; i < PART / 2; i += 4) {
      store_aligned(out + place * HEAD_DIM + part * PART + wide_column(i), Floats2{{value(i), value(i + 1)}});
    }
  }
}

}  // namespace forge
