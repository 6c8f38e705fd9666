// attention_wide: attention_tile on Hopper's matrix units, for caches of f16
//
// A block takes the queries of a tile, a group of four waves 64 of them, and multiplies them with all keys of a chunk
// and their weights with all its values: keys and values pass through LDS chunk by chunk, two on their way while one is
// computed on. A row's bits are those of attention_tile.
#pragma once

#include "../attention_tile_rows.h"
#include "hopper.h"

namespace forge {

// Keys of a chunk, then its values, lie in LDS in panels of STRIP elements, a row of 128 bytes a position: keys as
// columns of a product, values as rows. Three chunks take turns.
constexpr int PANEL = SPLIT * STRIP / PIECE, WIDE_STAGES = 3, WIDE_GROUP = 128;
template <int HEAD_DIM>
constexpr int PANELS = HEAD_DIM / STRIP;
template <int HEAD_DIM>
constexpr int STAGE_PIECES = 2 * PANELS<HEAD_DIM> * PANEL;
static_assert(WIDE_STAGES * STAGE_PIECES<128> * sizeof(Piece) <= ATTENTION_WIDE_LDS, "three chunks");

// multiply_scores takes of each TILE_DEPTH elements the first half of each eight, then the second halves: so an
// instruction's elements lie in two pieces here. Of the four elements from 4 * four on: the piece, and its half.
DEVICE int key_piece(int four) { return four / 8 * 4 + four % 2 * 2 + four % 8 / 4; }
DEVICE int key_half(int four) { return four / 2 % 2; }
DEVICE int panel_slot(int row, int piece) { return row * STRIP_PIECES + (piece ^ row % 8); }

// A thread's share of what a chunk from `start` on has of `keys`, of `values` or of both. Blocks before the first that
// may be read are that one, and the last of the context stands for what lies behind it.
template <int HEAD_DIM, bool HAS_KEYS, bool HAS_VALUES>
DEVICE void start_chunk(Piece* keys, Piece* values, const TileCache<half_t>& cache, int blocks, int start, int thread) {
  constexpr int PIECES = HEAD_DIM / PIECE, FOURS = HEAD_DIM / 4;
  const int four = thread % FOURS, key = key_piece(four), value = thread % PIECES;
  // Rows of a KV block follow each other.
  ROLLED
  for (int first = 0; first < SPLIT; first += KV_BLOCK_TOKENS) {
    const int left = cache.length - 1 - max_of(start + first, cache.first / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
    const int block = __shfl_sync(0xffffffffu, blocks, first / KV_BLOCK_TOKENS);
    const size_t at = static_cast<size_t>(block * cache.kv_heads + cache.kv_head) * (KV_BLOCK_TOKENS * HEAD_DIM);
    // Last row of a block behind the context.
    const int last = left < 0 ? (cache.length - 1) % KV_BLOCK_TOKENS : min_of(left, KV_BLOCK_TOKENS - 1);
    const auto taken = [&](int row) { return left < 0 ? last : min_of(row, last); };
    UNROLL
    for (int i = 0; HAS_KEYS && i < KV_BLOCK_TOKENS * FOURS / WIDE_GROUP; i++) {
      const int row = i * (WIDE_GROUP / FOURS) + thread / FOURS;
      const half_t* from = cache.k + at + taken(row) * HEAD_DIM + four * 4;
      const Piece* to = keys + key / STRIP_PIECES * PANEL + panel_slot(first + row, key % STRIP_PIECES);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(lds_address(to) + key_half(four) * 8), "l"(from)
                   : "memory");
    }
    UNROLL
    for (int i = 0; HAS_VALUES && i < KV_BLOCK_TOKENS * PIECES / WIDE_GROUP; i++) {
      const int row = i * (WIDE_GROUP / PIECES) + thread / PIECES;
      const half_t* from = cache.v + at + taken(row) * HEAD_DIM + value * PIECE;
      fetch_piece(lds_address(values + value / STRIP_PIECES * PANEL + panel_slot(first + row, value % STRIP_PIECES)),
                  from);
    }
  }
}

// Values in LDS as an operand: eight positions are 1,024 bytes from the next eight, STRIP elements a panel from the
// next.
DEVICE uint64_t values_at(const void* lds) {
  return static_cast<uint64_t>((lds_address(lds) & 0x3ffff) >> 4) | uint64_t{PANEL} << 16 | uint64_t{1024 / 16} << 32 |
         uint64_t{1} << 62;
}

// Grid: x = KV heads, y = tiles.
template <int HEAD_DIM>
DEVICE void attention_wide(Dim3 block, const float* __restrict qkv, const half_t* __restrict k_cache,
                           const half_t* __restrict v_cache, float* __restrict out, const int32_t* __restrict tiles,
                           const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                           const int32_t* __restrict slots, int slot_words, const float* __restrict sinks, int heads,
                           int kv_heads, Scoring scoring) {
  constexpr int STEPS_OF_HEAD = HEAD_DIM / 16, STEPS_OF_PANEL = STRIP / 16;
  extern __shared__ __align__(1024) Piece wide_lds[];
  const int kv_head = block.x, group = heads / kv_heads;
  const int first_row = tiles[2 * block.y], rows = tiles[2 * block.y + 1], queries = rows * group;
  const int first_position = row_position[first_row], length = first_position + rows;
  const TileCache<half_t> cache{k_cache,  v_cache, block_table_of(slots, row_slot[first_row], slot_words),
                                kv_heads, kv_head, window_begin(first_position, scoring.window),
                                length};
  const int begin = cache.first / SPLIT * SPLIT;
  // Full when all of its bringers have brought a chunk, empty when all waves that multiply are done with it.
  SHARED(uint64_t, full, WIDE_STAGES);
  SHARED(uint64_t, empty, WIDE_STAGES);
  if (thread_id() < WIDE_STAGES) {
    barrier_begin(full + thread_id(), WIDE_GROUP);
    barrier_begin(empty + thread_id(), BLOCK / WAVE);
  }
  show_barriers();
  block_sync();
  if (thread_id() >= BLOCK) {
    give_registers();
    const int thread = thread_id() - BLOCK, chunks = (length - begin + SPLIT - 1) / SPLIT;
    // A lane has one of a chunk's blocks.
    const auto block_of = [&](int start) {
      const int position = start + lane_id() % (SPLIT / KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS;
      return cache.block_table[readable(cache, position) / KV_BLOCK_TOKENS];
    };
    int stage = 0, parity = 1, next = block_of(begin);
    ROLLED
    for (int c = 0; c <= chunks; c++) {
      if (c < chunks) {
        const int blocks = next;
        next = block_of(begin + (c + 1) * SPLIT);
        barrier_wait(empty + stage, parity);
        Piece* const keys = wide_lds + stage * STAGE_PIECES<HEAD_DIM>;
        start_chunk<HEAD_DIM, true, true>(keys, keys + PANELS<HEAD_DIM> * PANEL, cache, blocks, begin + c * SPLIT,
                                          thread);
      }
      fetch_group();
      if (c > 0) {
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
  const int first_query = wave_id() * TILE;
  QueryRanges ranges;
  find_ranges(ranges, first_query, queries, first_position, group, scoring.window);
  // Queries of a lane, in the order of an instruction's keys.
  uint32_t query[STEPS_OF_HEAD][4];
  UNROLL
  for (int a = 0; a < 4; a++) {
    const int at = first_query + lane_id() / 4 + a % 2 * 8;
    const size_t head = static_cast<size_t>(first_row + at / group) * (heads + 2 * kv_heads) + kv_head * group;
    const float* from = qkv + (head + at % group) * HEAD_DIM + a / 2 * 16 + lane_id() % 4 / 2 * 8 + lane_id() % 2 * 2;
    UNROLL
    for (int s = 0; s < STEPS_OF_HEAD; s++) {
      const Floats2 pair = at < queries ? load_aligned<Floats2>(from + s / 2 * TILE_DEPTH + s % 2 * 4) : Floats2{};
      query[s][a] = to_halves(pair.f[0], pair.f[1]);
    }
  }
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
  WideSum<HEAD_DIM> totals;
  UNROLL
  for (int i = 0; i < HEAD_DIM / 2; i++) totals.values[i] = 0.0f;

  int stage = 0, parity = 0;
  ROLLED
  for (int start = begin; start < length; start += SPLIT) {
    const Piece *keys = wide_lds + stage * STAGE_PIECES<HEAD_DIM>, *values = keys + PANELS<HEAD_DIM> * PANEL;
    barrier_wait(full + stage, parity);
    WideSum<SPLIT> products;
    wide_fence();
    UNROLL
    for (int s = 0; s < STEPS_OF_HEAD; s++) {
      const uint64_t columns = columns_at(keys + s / STEPS_OF_PANEL * PANEL, 1024) + s % STEPS_OF_PANEL * 2;
      multiply_wide<half_t>(products, query[s], columns, s > 0);
    }
    wide_commit();
    wide_wait<0>();
    settle(products);

    TileSum scores[KEY_TILES];
    UNROLL
    for (int i = 0; i < SPLIT / 2; i++) scores[i / TILE_VALUES].values[i % TILE_VALUES] = products.values[i];
    WeightTile weights[KEY_TILES];
    float largest[QUERIES_HELD];
    weigh_chunk(weights, largest, scores, ranges, start, scoring);

    WideSum<HEAD_DIM> sums;
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
    if (lane_id() == 0) barrier_arrive(empty + stage);
    if (++stage == WIDE_STAGES) {
      stage = 0;
      parity ^= 1;
    }
    UNROLL
    for (int i = 0; i < HEAD_DIM / 2; i++) {
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
    for (int i = 2 * h; i < HEAD_DIM / 2; i += 4) {
      store_aligned(out + place * HEAD_DIM + wide_column(i), Floats2{{value(i), value(i + 1)}});
    }
  }
}

}  // namespace forge
