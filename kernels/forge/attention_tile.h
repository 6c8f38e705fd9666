// Attention on matrix units, for caches of f16 and q8_0. Queries that share a KV head, of one row or of many, are the
// sixteen queries of a tile; q and the weights are rounded to f16, sums are f32.
//
// A query's bits depend on its own context alone. A context is cut in chunks of SPLIT positions at absolute places. Of
// a chunk: the scores, a chain of products over the head; their largest; the weights e^(score - largest), rounded to
// f16; their sum, and that of weight * value, each one chain of products over rising keys: so the sum is of the rounded
// weights, and adds up alike wherever keys are shared out. Chunks are combined in order. Every form does just this;
// keys that no query of a tile attends to may be left out, because they add zeros.
#pragma once

#include "fetch.h"
#include "tile_cache.h"

namespace forge {

constexpr int KEY_TILES = SPLIT / TILE;
static_assert(SPLIT % TILE_DEPTH == 0 && KV_BLOCK_TOKENS % PIECE == 0, "whole products; pieces in one KV block");

// The positions that a query attends to: first .. end - 1.
struct KeyRange {
  int first, end;
};
DEVICE KeyRange attended(int position, int window) { return KeyRange{window_begin(position, window), position + 1}; }

// Largest score, and sum of weights, of the queries that a lane has scores of.
struct QueryStats {
  float largest[QUERIES_HELD], sum[QUERIES_HELD];
};
DEVICE void clear(QueryStats& stats) {
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    stats.largest[h] = LOWEST;
    stats.sum[h] = 0.0f;
  }
}

// Masks the scores of sixteen keys, from position `key` on, that lie outside the queries' ranges.
DEVICE void mask_scores(TileSum& scores, int key, const KeyRange (&ranges)[QUERIES_HELD]) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    // From the first of the lane's keys: the same in every lane, which the compiler sees.
    const int at = score_key(i) - score_key(0);
    const KeyRange& range = ranges[held_index(i)];
    const bool is_inside = at >= range.first - key - score_key(0) && at < range.end - key - score_key(0);
    scores.values[i] = is_inside ? scores.values[i] : LOWEST;
  }
}
// The largest of the scores of each query, in all lanes that have scores of it.
template <int N>
DEVICE void find_largest(float (&largest)[QUERIES_HELD], const TileSum (&scores)[N]) {
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) largest[h] = LOWEST;
  UNROLL
  for (int c = 0; c < N; c++) {
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      largest[held_index(i)] = larger_of(largest[held_index(i)], scores[c].values[i]);
    }
  }
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) {
    UNROLL
    for (int mask = QUERY_LANE_STEP; mask < QUERY_LANE_STEP * QUERY_LANES; mask <<= 1) {
      largest[h] = larger_of(largest[h], shuffle_xor(largest[h], mask));
    }
  }
}

// Largest score of a query: softcapping keeps the order of products, so that their largest becomes the largest score.
DEVICE float largest_score(float largest, const Scoring& scoring) {
  return largest == LOWEST ? LOWEST : score_of(largest, scoring);
}

// Products of queries and keys become weights, e^(score - largest score) as a power of two; those of masked products
// are 0, and so are all of a query that attends to no key of the chunk, whose largest product is LOWEST.
DEVICE void weigh(TileSum& products, const float (&largest)[QUERIES_HELD], float scale) {
  const float factor = scale * 1.44269504f;  // log2 e
  float most[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) most[h] = largest[h] == LOWEST ? 0.0f : largest[h] * factor;
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    products.values[i] = exp2_of(multiply_add(products.values[i], factor, -most[held_index(i)]));
  }
}
DEVICE void weigh_softcapped(TileSum& products, const float (&largest)[QUERIES_HELD], const Scoring& scoring) {
  constexpr float FACTOR = 1.44269504f;  // log2 e
  float most[QUERIES_HELD];
  UNROLL
  for (int h = 0; h < QUERIES_HELD; h++) most[h] = largest_score(largest[h], scoring) * FACTOR;
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) {
    const float product = products.values[i];
    const float weight = exp2_of(multiply_add(score_of(product, scoring), FACTOR, -most[held_index(i)]));
    products.values[i] = product == LOWEST ? 0.0f : weight;
    schedule_here();
  }
}
// Weights of N tiles of products, each stored by `store(c, weights)`.
template <int N, class Store>
DEVICE void weigh_tiles(TileSum (&products)[N], const float (&largest)[QUERIES_HELD], const Scoring& scoring,
                        Store store) {
  if (scoring.softcap == 0.0f) {
    UNROLL
    for (int c = 0; c < N; c++) {
      weigh(products[c], largest, scoring.scale);
      store(c, to_weights(products[c]));
    }
  } else {
    UNROLL
    for (int c = 0; c < N; c++) {
      weigh_softcapped(products[c], largest, scoring);
      store(c, to_weights(products[c]));
    }
  }
}

// Factors that combine two partial results: see combine in attention.h, whose bits these are.
struct CombineFactors {
  float total, next;
};
DEVICE CombineFactors combine_stats(float& largest, float& sum, float next_largest, float next_sum) {
  const float most = max_of(largest, next_largest);
  const CombineFactors factors{exp_of(largest - most), exp_of(next_largest - most)};
  largest = most;
  sum = multiply_add(sum, factors.total, next_sum * factors.next);
  return factors;
}
DEVICE float combine_value(float total, float next, CombineFactors factors) {
  return multiply_add(total, factors.total, next * factors.next);
}
// A head's sink is combined last: a score of its own, whose value is zero. Heads without one have LOWEST, which changes
// no bit.
DEVICE CombineFactors combine_sink(float& largest, float& sum, float sink) {
  return combine_stats(largest, sum, sink, 1.0f);
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

// Writes what a lane has of sixteen elements of its queries, of which there are `count`: to[h] is where the head of
// held query h begins.
template <class Value>
DEVICE void store_elements(float* const (&to)[QUERIES_HELD], int count, int element, Value value) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i += VALUES_PAIRED ? 2 : 1) {
    if (held_query(held_index(i)) >= count) continue;
    float* place = to[held_index(i)] + element + score_key(i);
    if constexpr (VALUES_PAIRED) {
      store_aligned(place, Floats2{{value(i), value(i + 1)}});
    } else {
      *place = value(i);
    }
  }
}

// Strips of a head; the last may be in part of zeros.
template <int HEAD_DIM>
constexpr int HEAD_STRIPS = (HEAD_DIM + STRIP - 1) / STRIP;
// Products over a head, and tiles of sixteen elements of a strip.
template <int HEAD_DIM>
constexpr int HEAD_DEPTHS = (HEAD_DIM + TILE_DEPTH - 1) / TILE_DEPTH;
constexpr int STRIP_COLUMNS = STRIP / TILE;

// A strip of the keys or values of a chunk on its way to LDS, SPLIT positions of STRIP elements: a thread's share.
constexpr int SHARE = SPLIT * STRIP_PIECES / BLOCK;
static_assert(SHARE * BLOCK == SPLIT * STRIP_PIECES, "whole shares");
// Pieces that it takes in LDS.
constexpr int TRANSPOSED_PITCH = SPLIT / PIECE + 1;
constexpr int KEY_STRIP = SPLIT * STRIP_PITCH, VALUE_STRIP = TRANSPOSES_VALUES ? STRIP * TRANSPOSED_PITCH : KEY_STRIP;
constexpr int CHUNK_STRIP = KEY_STRIP > VALUE_STRIP ? KEY_STRIP : VALUE_STRIP;

template <class T>
struct StripOnItsWay {
  KvQ8Piece pieces[SHARE];
};
template <>
struct StripOnItsWay<half_t> {
  Fetches<SHARE> fetches;
};
template <int HEAD_DIM, class Lds>
DEVICE void start_strip(StripOnItsWay<half_t>& way, Lds strip, const TileCache<half_t>& cache, const half_t* from,
                        int start, int element) {
  const int thread = thread_id_anew();
  UNROLL
  for (int i = 0; i < SHARE; i++) {
    const int at = i * BLOCK + thread, p = at % STRIP_PIECES;
    const half_t* vector = vector_at<HEAD_DIM>(cache, from, readable(cache, start + at / STRIP_PIECES));
    fetch_start(way.fetches, i, strip, strip_slot(at / STRIP_PIECES, p),
                vector + readable_element<HEAD_DIM, PIECE>(element + p * PIECE), true);
  }
}
template <class Lds>
DEVICE void finish_strip(const StripOnItsWay<half_t>& way, Lds strip) {
  const int thread = thread_id_anew();
  UNROLL
  for (int i = 0; i < SHARE; i++) {
    const int at = i * BLOCK + thread;
    fetch_finish(way.fetches, i, strip, strip_slot(at / STRIP_PIECES, at % STRIP_PIECES));
  }
}
template <int HEAD_DIM, class Lds>
DEVICE void start_strip(StripOnItsWay<KvQ8>& way, Lds, const TileCache<KvQ8>& cache, const KvQ8* from, int start,
                        int element) {
  const int thread = thread_id_anew();
  UNROLL
  for (int i = 0; i < SHARE; i++) {
    const int at = i * BLOCK + thread, p = at % STRIP_PIECES;
    const int position = readable(cache, start + at / STRIP_PIECES);
    way.pieces[i] =
        fetch_vector<HEAD_DIM>(cache, from, position, readable_element<HEAD_DIM, PIECE>(element + p * PIECE));
  }
}
template <class Lds>
DEVICE void finish_strip(const StripOnItsWay<KvQ8>& way, Lds strip) {
  const int thread = thread_id_anew();
  UNROLL
  for (int i = 0; i < SHARE; i++) {
    const int at = i * BLOCK + thread;
    strip[strip_slot(at / STRIP_PIECES, at % STRIP_PIECES)] = unpack(way.pieces[i]);
  }
}

// Values on their way to where load_value_tile finds them.
template <class T>
struct TransposedValues {
  ValueCorner<KvQ8Four> corners[SHARE / 4];
};
template <>
struct TransposedValues<half_t> {
  ValueCorner<Words2> corners[SHARE / 4];
};
template <class T>
struct ValuesOnTheirWay {
  typename Choose<TRANSPOSES_VALUES, TransposedValues<T>, StripOnItsWay<T>>::Type way;
};
template <int HEAD_DIM, class T, class Lds>
DEVICE void start_values(ValuesOnTheirWay<T>& values, Lds strip, const TileCache<T>& cache, int start, int element) {
  if constexpr (TRANSPOSES_VALUES) {
    const int thread = thread_id_anew();
    UNROLL
    for (int i = 0; i < SHARE / 4; i++) {
      const int at = i * BLOCK + thread, p = at / (STRIP / 4), e = at % (STRIP / 4) * 4;
      values.way.corners[i] =
          load_values<HEAD_DIM>(cache, start + p * PIECE, readable_element<HEAD_DIM, 4>(element + e));
    }
  } else {
    start_strip<HEAD_DIM>(values.way, strip, cache, cache.v, start, element);
  }
}
template <class T, class Lds>
DEVICE void finish_values(const ValuesOnTheirWay<T>& values, Lds strip) {
  if constexpr (TRANSPOSES_VALUES) {
    const int thread = thread_id_anew();
    UNROLL
    for (int i = 0; i < SHARE / 4; i++) {
      const int at = i * BLOCK + thread, p = at / (STRIP / 4), e = at % (STRIP / 4) * 4;
      Piece pieces[4];
      transpose(pieces, values.way.corners[i]);
      UNROLL
      for (int j = 0; j < 4; j++) strip[(e + j) * TRANSPOSED_PITCH + p] = pieces[j];
    }
  } else {
    finish_strip(values.way, strip);
  }
}

// Sixteen queries as f16, in registers. row_of(i): where query i < `count` lies.
template <int HEAD_DIM, int DEPTHS, class RowOf>
DEVICE void load_queries(Fragment<half_t> (&queries)[DEPTHS], int count, RowOf row_of) {
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    const float* row = row_of(piece_row(p));
    UNROLL
    for (int d = 0; d < DEPTHS; d++) {
      const int element = d * TILE_DEPTH + piece_k(p);
      queries[d].pieces[p] = piece_row(p) < count && element < HEAD_DIM ? to_piece(row + element) : zero_piece();
    }
  }
}
// TILES times sixteen, in LDS, as strips: all threads of a block together. Those of tile t begin at
// t * HEAD_STRIPS * QUERY_STRIP.
constexpr int QUERY_STRIP = TILE * STRIP_PITCH;
template <int HEAD_DIM, int TILES, class Lds, class PieceOf>
DEVICE void bring_query_pieces(Lds strips, int count, PieceOf piece_of) {
  constexpr int STRIPS = HEAD_STRIPS<HEAD_DIM>, PIECES = STRIPS * STRIP_PIECES;
  for (int i = thread_id(); i < TILES * TILE * PIECES; i += BLOCK) {
    const int query = i / PIECES, p = i % PIECES, strip = query / TILE * STRIPS + p / STRIP_PIECES;
    strips[strip * QUERY_STRIP + strip_slot(query % TILE, p % STRIP_PIECES)] =
        query < count && p * PIECE < HEAD_DIM ? piece_of(query, p) : zero_piece();
  }
}
template <int HEAD_DIM, int TILES, class Lds, class RowOf>
DEVICE void bring_queries(Lds strips, int count, RowOf row_of) {
  bring_query_pieces<HEAD_DIM, TILES>(strips, count,
                                      [&](int query, int p) { return to_piece(row_of(query) + p * PIECE); });
}

// The fragment of TILE_DEPTH elements of sixteen rows, keys or queries, of a strip in LDS.
template <class Lds>
DEVICE void load_strip(Fragment<half_t>& fragment, Lds strip, int row, int element, int lane) {
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    fragment.pieces[p] = strip[strip_slot(row + piece_row(p, lane), (element + piece_k(p, lane)) / PIECE)];
  }
}

}  // namespace forge
