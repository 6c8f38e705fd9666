// Attention on matrix units, for caches of f16 and q8_0. Queries that share a KV head, of one row or of many, are the
// sixteen rows of a tile; q and the weights e^(score - largest) are rounded to f16, sums are f32.
//
// A query's bits depend on its own context alone: chunks of CHUNK positions at absolute places, each with its own
// largest score; the chunks of a split are folded in order, and so are the splits. Every form does just this.
#pragma once

#include "attention.h"
#include "kv_q8.h"
#include "tile.h"
#include "words.h"

namespace forge {

constexpr int CHUNK = TILE_DEPTH;
static_assert(SPLIT % CHUNK == 0 && CHUNK % KV_BLOCK_TOKENS == 0 && KV_BLOCK_TOKENS == TILE,
              "chunks are two KV blocks");

// Largest score and sum of weights of the queries that a lane holds values of; entry i is of query value_row(i).
struct TileStats {
  float largest[TILE_VALUES], sum[TILE_VALUES];
};
DEVICE void clear(TileStats& stats) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    stats.largest[i] = LOWEST;
    stats.sum[i] = 0.0f;
  }
}

// `combine` over all values of a query: values[i] becomes that of query value_row(i).
template <class Combine>
DEVICE void combine_rows(float (&values)[TILE_VALUES], Combine combine) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    // The rows of two values differ by the same in every lane: the compiler decides this.
    int first = i;
    UNROLL
    for (int j = TILE_VALUES - 1; j >= 0; j--) {
      if (j < i && value_row(j) == value_row(i)) first = j;
    }
    if (first < i) {
      values[i] = values[first];
      continue;
    }
    UNROLL
    for (int j = 0; j < TILE_VALUES; j++) {
      if (j > i && value_row(j) == value_row(i)) values[i] = combine(values[i], values[j]);
    }
    UNROLL
    for (int mask = 1; mask < TILE_COLUMN_LANES; mask <<= 1)
      values[i] = combine(values[i], shuffle_xor(values[i], mask));
  }
}

// The scores of a chunk become weights, whose largest score and sum go to `stats`. `ends[i]` is how many of the chunk's
// positions query value_row(i) attends to.
DEVICE void weigh(TileSum (&scores)[2][1], TileStats& stats, const int (&ends)[TILE_VALUES], float scale) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    UNROLL
    for (int c = 0; c < 2; c++) {
      const bool is_masked = c * TILE + value_column(i) >= ends[i];
      scores[c][0].values[i] = is_masked ? LOWEST : scores[c][0].values[i] * scale;
    }
    stats.largest[i] = max_of(scores[0][0].values[i], scores[1][0].values[i]);
  }
  combine_rows(stats.largest, [](float a, float b) { return max_of(a, b); });
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    UNROLL
    for (int c = 0; c < 2; c++) {
      const bool is_masked = c * TILE + value_column(i) >= ends[i];
      scores[c][0].values[i] = is_masked ? 0.0f : exp_of(scores[c][0].values[i] - stats.largest[i]);
    }
    stats.sum[i] = scores[0][0].values[i] + scores[1][0].values[i];
  }
  combine_rows(stats.sum, [](float a, float b) { return a + b; });
}

// How two partial results are put together: see fold in attention.h, whose bits these are.
struct FoldFactors {
  float total, next;
};
DEVICE FoldFactors fold_stats(float& largest, float& sum, float next_largest, float next_sum) {
  const float most = max_of(largest, next_largest);
  const FoldFactors factors{exp_of(largest - most), exp_of(next_largest - most)};
  largest = most;
  sum = multiply_add(sum, factors.total, next_sum * factors.next);
  return factors;
}
DEVICE float fold_value(float total, float next, FoldFactors factors) {
  return multiply_add(total, factors.total, next * factors.next);
}

// The weights of a chunk as halves, where load_fragment finds them: [TILE * ROW_PIECES] pieces.
template <class Halves>
DEVICE void store_weights(Halves halves, const TileSum (&weights)[2][1]) {
  UNROLL
  for (int c = 0; c < 2; c++) {
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      const int position = c * TILE + value_column(i);
      const int slot = piece_slot(value_row(i), position / PIECE);
      halves[slot * PIECE + position % PIECE] = to_half(weights[c][0].values[i]);
    }
  }
}
// load_fragment, from halves.
template <class Halves>
DEVICE void load_fragment_of_halves(Fragment<half_t>& fragment, Halves halves, int first) {
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    const int slot = piece_slot(first + piece_row(p), piece_k(p) / PIECE);
    half_t elements[PIECE];
    for (int e = 0; e < PIECE; e++) elements[e] = halves[slot * PIECE + e];
    __builtin_memcpy(&fragment.pieces[p], elements, sizeof(Piece));
  }
}

// Eight neighbouring f32 as a piece of halves.
DEVICE Piece to_piece(const float* p) {
  half_t elements[PIECE];
  UNROLL
  for (int i = 0; i < PIECE; i += 4) {
    const Floats4 four = load_aligned<Floats4>(p + i);
    UNROLL
    for (int j = 0; j < 4; j++) elements[i + j] = to_half(four.f[j]);
  }
  Piece piece;
  __builtin_memcpy(&piece, elements, sizeof(Piece));
  return piece;
}

// Four elements of a value vector at each of eight positions, and the same turned: eight positions of each element.
struct ValueCorner {
  Words2 positions[PIECE];
};
DEVICE void turn(Piece (&pieces)[4], const ValueCorner& corner) {
  UNROLL
  for (int word = 0; word < 4; word++) {
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
      const uint32_t even = corner.positions[2 * word].w[pair], odd = corner.positions[2 * word + 1].w[pair];
      pieces[2 * pair].words[word] = (even & 0xffffu) | odd << 16;
      pieces[2 * pair + 1].words[word] = even >> 16 | (odd & 0xffff0000u);
    }
  }
}

// One sequence's part of a KV cache for one KV head, of which `length` positions are filled. T: half_t, or KvQ8 of
// kv_q8.h.
template <class T>
struct TileCache {
  const T *k, *v;
  const int32_t* block_table;
  int kv_heads, kv_head, length;
};
// Eight elements of a key. What lies behind the context is garbage: its scores are masked.
template <int HEAD_DIM>
DEVICE Piece load_key(const TileCache<half_t>& cache, int position, int element) {
  const int block_first = min_of(position, cache.length - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
  const size_t at = kv_offset(cache.block_table, block_first, cache.kv_heads, cache.kv_head, HEAD_DIM);
  return load_aligned<Piece>(cache.k + at + position % KV_BLOCK_TOKENS * HEAD_DIM + element);
}
// Four elements of the values of eight positions. The last value stands for those behind the context: they are
// multiplied by 0, and must be finite.
template <int HEAD_DIM>
DEVICE ValueCorner load_values(const TileCache<half_t>& cache, int position, int element) {
  const int block_first = min_of(position, cache.length - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
  const size_t at = kv_offset(cache.block_table, block_first, cache.kv_heads, cache.kv_head, HEAD_DIM) + element;
  ValueCorner corner;
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    const int row = min_of(position + i, cache.length - 1) - block_first;
    corner.positions[i] = load_aligned<Words2>(cache.v + at + static_cast<size_t>(row) * HEAD_DIM);
  }
  return corner;
}

// The same of a cache in q8_0: quant * scale, rounded to f16.
template <int HEAD_DIM>
DEVICE Piece load_key(const TileCache<KvQ8>& cache, int position, int element) {
  const KvQ8* block = kv_q8_block<HEAD_DIM>(cache.k, cache.block_table, min_of(position, cache.length - 1),
                                            cache.kv_heads, cache.kv_head);
  Piece piece;
  const Words2 halves[2] = {load_kv_q8<HEAD_DIM>(block, position % KV_BLOCK_TOKENS, element),
                            load_kv_q8<HEAD_DIM>(block, position % KV_BLOCK_TOKENS, element + 4)};
  UNROLL
  for (int i = 0; i < 4; i++) piece.words[i] = halves[i / 2].w[i % 2];
  return piece;
}
template <int HEAD_DIM>
DEVICE ValueCorner load_values(const TileCache<KvQ8>& cache, int position, int element) {
  const int last = cache.length - 1;
  const KvQ8* block =
      kv_q8_block<HEAD_DIM>(cache.v, cache.block_table, min_of(position, last), cache.kv_heads, cache.kv_head);
  ValueCorner corner;
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    corner.positions[i] = load_kv_q8<HEAD_DIM>(block, min_of(position + i, last) % KV_BLOCK_TOKENS, element);
  }
  return corner;
}

}  // namespace forge
