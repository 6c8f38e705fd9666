// The linear layer on matrix units, in forms with the same bits: y[t][n] = sum_k weight[n][k] * x[t][k].
//
// A row's elements are cut in SEGMENTS runs of whole chunks of TILE_DEPTH, by their number alone. A segment is summed
// by tile products in rising order, and the sums of the segments are added in order. The few form gives each segment to
// a wave and brings the weights straight from memory, once; the many form walks the segments one after the other and
// brings weights and x through LDS.
//
// A job is what to multiply and what becomes of the sums:
//   PARTS                       rows of the weight that make one output
//   weight, x, out, in          weight [PARTS, out, in], x [tokens, in]; `in` is a multiple of PIECE
//   tokens                      where their number lies
//   finish(job, t, n, sums)     takes the PARTS sums of an output
// One of few tokens may say besides, by functions of its own:
//   token_count(job)            where no number of them lies in memory
//   bring_inputs(job)           what is done before x is read, weights being on their way: all threads together
//   first_tokens<TOKENS>(...)   where x lies, as what load_tokens and advance take
//   end_block(job, first_n)     what is done when all outputs of a block are finished: all threads together
#pragma once

#include "fetch.h"

namespace forge {

constexpr int SEGMENTS = 8;

// The chunk after the last of segment s.
DEVICE int segment_end(int chunks, int s) { return chunks * (s + 1) / SEGMENTS; }
DEVICE int chunk_count(int in) { return (in + TILE_DEPTH - 1) / TILE_DEPTH; }
// True if the element lies in its row; only the last chunk has any that do not. WHOLE: known to be another chunk.
template <bool WHOLE>
DEVICE bool is_inside(int k, int in) {
  return WHOLE || k < in;
}

// Row n of a part of the weight, row t of x; the last one for rows past the end: what is computed there is not stored.
template <class Job>
DEVICE const auto* weight_row(const Job& job, int part, int n) {
  return job.weight + (static_cast<size_t>(part) * job.out + min_of(n, job.out - 1)) * job.in;
}
template <class Job>
DEVICE const auto* x_row(const Job& job, int t, int tokens) {
  return job.x + static_cast<size_t>(min_of(t, tokens - 1)) * job.in;
}

// Addresses of a lane's pieces of the next chunk of some tiles: the first of each row that it has pieces of.
constexpr int ROW_RUNS = FRAGMENT_PIECES / FRAGMENT_ROWS;
template <class T, int TILES>
struct Chunk {
  const T* rows[TILES][FRAGMENT_ROWS];
};
// Loads the chunk `ahead` of that one, or its first `elements` elements and zeros. STREAM: read once.
template <bool STREAM, bool WHOLE = true, class T, int TILES>
DEVICE void load_chunk(Fragment<T> (&fragments)[TILES], const Chunk<T, TILES>& chunk, int ahead, int elements = 0) {
  UNROLL
  for (int i = 0; i < TILES * FRAGMENT_PIECES; i++) {
    const int t = i / FRAGMENT_PIECES, p = i % FRAGMENT_PIECES;
    const int row = p / ROW_RUNS;
    const T* from = chunk.rows[t][row] + (piece_k(p) - piece_k(row * ROW_RUNS)) + ahead * TILE_DEPTH;
    const bool inside = WHOLE || piece_k(p) < elements;
    fragments[t].pieces[p] = inside ? STREAM ? stream_piece(from) : load_piece(from) : zero_piece();
  }
}
template <bool WHOLE, class T, int TOKENS>
DEVICE void load_tokens(Fragment<T> (&fragments)[TOKENS], const Chunk<T, TOKENS>& chunk, int ahead, int elements = 0) {
  load_chunk<false, WHOLE>(fragments, chunk, ahead, elements);
}
template <class T, int TILES>
DEVICE void advance(Chunk<T, TILES>& chunk, int chunks) {
  UNROLL
  for (int i = 0; i < TILES * FRAGMENT_ROWS; i++)
    chunk.rows[i / FRAGMENT_ROWS][i % FRAGMENT_ROWS] += chunks * TILE_DEPTH;
}

template <class Job>
DEVICE int token_count(const Job& job) {
  return *job.tokens;
}
template <class Job>
DEVICE void bring_inputs(const Job&) {
  wait_for_inputs();
}
template <class Job>
DEVICE void end_block(const Job&, int) {}
// From chunk `first` of x on.
template <int TOKENS, class Job>
DEVICE Chunk<typename Job::Element, TOKENS> first_tokens(const Job& job, int first_token, int tokens, int first) {
  Chunk<typename Job::Element, TOKENS> chunk;
  UNROLL
  for (int t = 0; t < TOKENS; t++) {
    UNROLL
    for (int p = 0; p < FRAGMENT_ROWS; p++) {
      const int token = first_token + t * TILE + piece_row(p * ROW_RUNS);
      chunk.rows[t][p] = x_row(job, token, tokens) + first * TILE_DEPTH + piece_k(p * ROW_RUNS);
    }
  }
  return chunk;
}

// Few tokens: a block owns ROWS / PARTS tiles of outputs and TOKENS tiles of tokens. About LOADS pieces of the weight
// are on their way to a lane at any time.
template <int ROWS, int TOKENS, int LOADS, class Job>
DEVICE void linear_few(Job job, int first_n, int first_token) {
  using T = typename Job::Element;
  constexpr int PARTS = Job::PARTS, OWN = SEGMENTS / WAVES;
  constexpr int AHEAD = max_of(1, LOADS / (ROWS * FRAGMENT_PIECES));  // chunks
  static_assert(ROWS % PARTS == 0 && OWN * WAVES == SEGMENTS, "whole outputs, whole segments");

  // Their number is the step's own: it lay there before the first launch.
  const int chunks = chunk_count(job.in), tokens = token_count(job);
  TileSum sums[OWN][TOKENS][ROWS];
  UNROLL
  for (int o = 0; o < OWN; o++) {
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      UNROLL
      for (int r = 0; r < ROWS; r++) clear(sums[o][t][r]);
    }
    const int segment = o * WAVES + wave_id(), end = segment_end(chunks, segment);
    const int first = segment == 0 ? 0 : segment_end(chunks, segment - 1);
    const int whole = min_of(end, job.in / TILE_DEPTH) - first;
    Chunk<T, ROWS> w_next;
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      UNROLL
      for (int p = 0; p < FRAGMENT_ROWS; p++) {
        const int n = first_n + r / PARTS * TILE + piece_row(p * ROW_RUNS);
        w_next.rows[r][p] = weight_row(job, r % PARTS, n) + first * TILE_DEPTH + piece_k(p * ROW_RUNS);
      }
    }
    // As soon as the fragments of a chunk are used, those of the chunk AHEAD of it take their place. The first of the
    // weights are asked for while the launch before this one still runs.
    Fragment<T> w[AHEAD][ROWS], v[AHEAD][TOKENS];
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
      if (a < whole) load_chunk<true>(w[a], w_next, a);
    }
    if (o == 0) bring_inputs(job);
    if (first_token >= tokens) return;
    auto x_next = first_tokens<TOKENS>(job, first_token, tokens, first);
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
      if (a < whole) load_tokens<true>(v[a], x_next, a);
    }
    int c = 0;
    for (; c < whole; c += AHEAD) {
      UNROLL
      for (int a = 0; a < AHEAD; a++) {
        if (c + a < whole) multiply_tiles(sums[o], w[a], v[a]);
        // One chunk ahead the last one is loaded twice: a branch here would take registers for both its ways.
        const int ahead = AHEAD == 1 ? min_of(1, whole - 1 - c) : a + AHEAD;
        if (AHEAD == 1 || c + ahead < whole) {
          load_chunk<true>(w[a], w_next, ahead);
          load_tokens<true>(v[a], x_next, ahead);
        }
      }
      advance(w_next, AHEAD);
      advance(x_next, AHEAD);
    }
    if (first + whole < end) {
      load_chunk<true, false>(w[0], w_next, whole - c, job.in % TILE_DEPTH);
      load_tokens<false>(v[0], x_next, whole - c, job.in % TILE_DEPTH);
      multiply_tiles(sums[o], w[0], v[0]);
    }
  }

  let_next_begin();
  // The sums of all segments meet in LDS, a few tiles at a time.
  constexpr int AT_ONCE = min_of(TOKENS, 4 / ROWS), PER_TILE = TILE_VALUES * WAVE;
  SHARED(float, parts, (SEGMENTS * AT_ONCE * ROWS * PER_TILE));
  UNROLL
  for (int first = 0; first < TOKENS; first += AT_ONCE) {
    UNROLL
    for (int o = 0; o < OWN; o++) {
      UNROLL
      for (int t = 0; t < AT_ONCE; t++) {
        UNROLL
        for (int r = 0; r < ROWS; r++) {
          const int tile = ((o * WAVES + wave_id()) * AT_ONCE + t) * ROWS + r;
          UNROLL
          for (int i = 0; i < TILE_VALUES; i++) {
            parts[tile * PER_TILE + i * WAVE + lane_id()] = sums[o][first + t][r].values[i];
          }
        }
      }
    }
    block_sync();
    for (int e = wave_id(); e < AT_ONCE * ROWS / PARTS * TILE_VALUES; e += WAVES) {
      const int i = e % TILE_VALUES, r = e / TILE_VALUES % (ROWS / PARTS), t = e / TILE_VALUES / (ROWS / PARTS);
      float totals[PARTS];
      UNROLL
      for (int part = 0; part < PARTS; part++) {
        totals[part] = 0.0f;
        UNROLL
        for (int s = 0; s < SEGMENTS; s++) {
          const int tile = (s * AT_ONCE + t) * ROWS + r * PARTS + part;
          totals[part] += parts[tile * PER_TILE + i * WAVE + lane_id()];
        }
      }
      const int n = first_n + r * TILE + value_row(i), token = first_token + (first + t) * TILE + value_column(i);
      if (n < job.out && token < tokens) finish(job, token, n, totals);
    }
    block_sync();
  }
  end_block(job, first_n);
}

}  // namespace forge
