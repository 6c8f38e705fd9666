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
#pragma once

#include "fetch.h"

namespace forge {

constexpr int SEGMENTS = 8;

// The chunk after the last of segment s.
DEVICE int segment_end(int chunks, int s) { return chunks * (s + 1) / SEGMENTS; }
DEVICE int chunk_count(int in) { return (in + TILE_DEPTH - 1) / TILE_DEPTH; }
// Whether the element lies in its row; only the last chunk has any that do not. WHOLE: known to be another chunk.
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

// Where a lane's pieces of the next chunk of some tiles lie: the first of each row that it has pieces of.
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
template <class T, int TILES>
DEVICE void advance(Chunk<T, TILES>& chunk, int chunks) {
  UNROLL
  for (int i = 0; i < TILES * FRAGMENT_ROWS; i++)
    chunk.rows[i / FRAGMENT_ROWS][i % FRAGMENT_ROWS] += chunks * TILE_DEPTH;
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
  const int chunks = chunk_count(job.in), tokens = *job.tokens;
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
    if (o == 0) wait_for_inputs();
    if (first_token >= tokens) return;
    Chunk<T, TOKENS> x_next;
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      UNROLL
      for (int p = 0; p < FRAGMENT_ROWS; p++) {
        const int token = first_token + t * TILE + piece_row(p * ROW_RUNS);
        x_next.rows[t][p] = x_row(job, token, tokens) + first * TILE_DEPTH + piece_k(p * ROW_RUNS);
      }
    }
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
      if (a < whole) load_chunk<false>(v[a], x_next, a);
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
          load_chunk<false>(v[a], x_next, ahead);
        }
      }
      advance(w_next, AHEAD);
      advance(x_next, AHEAD);
    }
    if (first + whole < end) {
      load_chunk<true, false>(w[0], w_next, whole - c, job.in % TILE_DEPTH);
      load_chunk<false, false>(v[0], x_next, whole - c, job.in % TILE_DEPTH);
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
}

// Many tokens: a block owns MANY_ROWS / PARTS outputs of MANY_TOKENS tokens, a wave a rectangle of tiles of them.
constexpr int MANY_ROWS = TILE_MANY_ROWS, MANY_TOKENS = TILE_MANY_TOKENS;

template <class Job>
DEVICE void linear_many(Job job, int first_n, int first_token) {
  using T = typename Job::Element;
  constexpr int PARTS = Job::PARTS;
  constexpr int ROW_WAVES = min_of(WAVES, 2), TOKEN_WAVES = WAVES / ROW_WAVES;
  constexpr int ROWS = MANY_ROWS / TILE / ROW_WAVES, TOKENS = MANY_TOKENS / TILE / TOKEN_WAVES;
  // A wave's tiles of rows: those of part 0, then those of part 1.
  constexpr int WAVE_ROWS = ROWS * TILE, PART_ROWS = WAVE_ROWS / PARTS, PART_TILES = ROWS / PARTS;
  constexpr int W_PIECES = MANY_ROWS * ROW_PIECES, X_PIECES = MANY_TOKENS * ROW_PIECES;
  constexpr int W_FETCHES = W_PIECES / BLOCK, X_FETCHES = X_PIECES / BLOCK;
  SHARED(Piece, w_tiles, (FETCH_STAGES * W_PIECES));
  SHARED(Piece, x_tiles, (FETCH_STAGES * X_PIECES));

  const int tokens = *job.tokens;
  wait_for_inputs();
  if (first_token >= tokens) return;

  // Piece j * BLOCK + thread_id() of a tile is this thread's to fetch.
  const T *w_from[W_FETCHES], *x_from[X_FETCHES];
  UNROLL
  for (int j = 0; j < W_FETCHES; j++) {
    const int i = j * BLOCK + thread_id(), row = i / ROW_PIECES, of_wave = row % WAVE_ROWS;
    const int n = first_n + row / WAVE_ROWS * PART_ROWS + of_wave % PART_ROWS;
    w_from[j] = weight_row(job, of_wave / PART_ROWS, n) + i % ROW_PIECES * PIECE;
  }
  UNROLL
  for (int j = 0; j < X_FETCHES; j++) {
    const int i = j * BLOCK + thread_id();
    x_from[j] = x_row(job, first_token + i / ROW_PIECES, tokens) + i % ROW_PIECES * PIECE;
  }
  Fetches<W_FETCHES> w_fetches;
  Fetches<X_FETCHES> x_fetches;
  const auto slot_of = [](int j) {
    const int i = j * BLOCK + thread_id();
    return piece_slot(i / ROW_PIECES, i % ROW_PIECES);
  };
  const auto start_chunk = [&](int chunk, int stage, auto whole) {
    const int k = chunk * TILE_DEPTH;
    UNROLL
    for (int j = 0; j < W_FETCHES; j++) {
      const bool inside = is_inside<whole.value>(k + (j * BLOCK + thread_id()) % ROW_PIECES * PIECE, job.in);
      fetch_start(w_fetches, j, w_tiles, stage * W_PIECES + slot_of(j), w_from[j] + k, inside);
    }
    UNROLL
    for (int j = 0; j < X_FETCHES; j++) {
      const bool inside = is_inside<whole.value>(k + (j * BLOCK + thread_id()) % ROW_PIECES * PIECE, job.in);
      fetch_start(x_fetches, j, x_tiles, stage * X_PIECES + slot_of(j), x_from[j] + k, inside);
    }
  };
  const auto start = [&](int chunk, int stage) {
    if (chunk < job.in / TILE_DEPTH) return start_chunk(chunk, stage, Constant<true>());
    start_chunk(chunk, stage, Constant<false>());
  };
  const auto finish_fetches = [&](int stage) {
    UNROLL
    for (int j = 0; j < W_FETCHES; j++) fetch_finish(w_fetches, j, w_tiles, stage * W_PIECES + slot_of(j));
    UNROLL
    for (int j = 0; j < X_FETCHES; j++) fetch_finish(x_fetches, j, x_tiles, stage * X_PIECES + slot_of(j));
  };

  const int w_first = wave_id() % ROW_WAVES * WAVE_ROWS, x_first = wave_id() / ROW_WAVES * TOKENS * TILE;
  TileSum totals[ROWS][TOKENS][1], sums[ROWS][TOKENS][1];
  UNROLL
  for (int i = 0; i < ROWS * TOKENS; i++) {
    clear(totals[i % ROWS][i / ROWS][0]);
    clear(sums[i % ROWS][i / ROWS][0]);
  }
  const FragmentPlaces x_places = fragment_places(x_first), w_places = fragment_places(w_first);
  const auto load_x = [&](Fragment<T>& fragment, int stage, int t) {
    load_fragment(fragment, x_tiles + (stage * X_PIECES + t * TILE * ROW_PIECES), x_places);
  };
  const auto load_w = [&](Fragment<T>& fragment, int stage, int r) {
    load_fragment(fragment, w_tiles + (stage * W_PIECES + r * TILE * ROW_PIECES), w_places);
  };

  const int chunks = chunk_count(job.in);
  for (int c = 0; c < FETCH_STAGES - 1; c++) {
    if (c < chunks) {
      start(c, c);
      finish_fetches(c);
    }
    fetch_group();
  }
  fetch_wait<FETCH_STAGES - 2>();
  block_sync();
  // What is multiplied next is loaded while this is multiplied, so fragments have two places each. TURNS chunks name
  // all of them and all stages by constants.
  constexpr int TURNS = FETCH_STAGES % 2 == 0 ? FETCH_STAGES : 2 * FETCH_STAGES;
  Fragment<T> x[2][TOKENS], w[2][1];
  UNROLL
  for (int t = 0; t < TOKENS; t++) load_x(x[0][t], 0, t);
  load_w(w[0][0], 0, 0);
  int segment = 0;
  for (int first = 0; first < chunks; first += TURNS) {
    UNROLL
    for (int turn = 0; turn < TURNS; turn++) {
      const int c = first + turn;
      if (c >= chunks) break;
      const int stage = turn % FETCH_STAGES, next_stage = (turn + 1) % FETCH_STAGES;
      const int fetch_stage = (turn + FETCH_STAGES - 1) % FETCH_STAGES;
      fetch_wait<FETCH_STAGES - 3>();
      // Chunk c + 1 has arrived, and every wave has read chunk c - 1, whose place the next fetch takes.
      block_sync();
      if (c + FETCH_STAGES - 1 < chunks) start(c + FETCH_STAGES - 1, fetch_stage);
      fetch_group();
      UNROLL
      for (int r = 0; r < ROWS; r++) {
        const int product = turn * ROWS + r;
        // Past the last chunk: from a place whose fragments nobody uses.
        load_w(w[(product + 1) % 2][0], r + 1 < ROWS ? stage : next_stage, (r + 1) % ROWS);
        UNROLL
        for (int t = 0; t < TOKENS; t++) {
          if (t * ROWS / TOKENS == r) load_x(x[(turn + 1) % 2][t], next_stage, t);
        }
        multiply_tiles(sums[r], w[product % 2], x[turn % 2]);
      }
      finish_fetches(fetch_stage);

      if (c + 1 < segment_end(chunks, segment)) continue;
      while (segment_end(chunks, segment) <= c + 1 && segment < SEGMENTS) segment++;
      UNROLL
      for (int i = 0; i < ROWS * TOKENS; i++) {
        add(totals[i % ROWS][i / ROWS][0], sums[i % ROWS][i / ROWS][0]);
        clear(sums[i % ROWS][i / ROWS][0]);
      }
    }
  }

  let_next_begin();
  UNROLL
  for (int t = 0; t < TOKENS; t++) {
    UNROLL
    for (int r = 0; r < PART_TILES; r++) {
      UNROLL
      for (int i = 0; i < TILE_VALUES; i++) {
        const int n = first_n + w_first / PARTS + r * TILE + value_row(i);
        const int token = first_token + x_first + t * TILE + value_column(i);
        float parts[PARTS];
        UNROLL
        for (int part = 0; part < PARTS; part++) parts[part] = totals[part * PART_TILES + r][t][0].values[i];
        if (n < job.out && token < tokens) finish(job, token, n, parts);
      }
    }
  }
}

}  // namespace forge
