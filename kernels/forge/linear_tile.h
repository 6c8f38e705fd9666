// The linear layer on matrix units, in two forms with the same bits: y[t][n] = sum_k weight[n][k] * x[t][k].
//
// A row's elements are cut in SEGMENTS runs of whole chunks of TILE_DEPTH, by their number alone. A segment is summed by
// tile products in rising order, and the sums of the segments are added in order. The few form gives each segment to a
// wave and brings the weights straight from memory, once; the many form walks the segments one after the other and
// brings weights and x through LDS.
//
// A job is what to multiply and what becomes of the sums:
//   PARTS                       rows of the weight that make one output
//   weight, x, tokens, out, in  weight [PARTS, out, in], x [tokens, in]; `in` is a multiple of PIECE
//   finish(job, t, n, sums)     takes the PARTS sums of an output
#pragma once

#include "fetch.h"

namespace forge {

constexpr int SEGMENTS = 8;

// The chunk after the last of segment s.
DEVICE int segment_end(int chunks, int s) { return chunks * (s + 1) / SEGMENTS; }
DEVICE int chunk_count(int in) { return (in + TILE_DEPTH - 1) / TILE_DEPTH; }

// Row n of a part, or the last one for n past the end: what is computed there is not stored.
template <class Job>
DEVICE const auto* weight_row(const Job& job, int part, int n) {
  const size_t row = static_cast<size_t>(part) * job.out + min_of(n, job.out - 1);
  return job.weight + row * job.in;
}
template <class Job>
DEVICE const auto* x_row(const Job& job, int t) {
  return job.x + static_cast<size_t>(min_of(t, job.tokens - 1)) * job.in;
}

// Few tokens: a block owns ROWS / PARTS tiles of outputs and TOKENS tiles of tokens. AHEAD: chunks loaded at once.
template <int ROWS, int TOKENS, int AHEAD, class Job>
DEVICE void linear_few(const Job& job, int first_n, int first_token) {
  using T = typename Job::Element;
  constexpr int PARTS = Job::PARTS, OWN = SEGMENTS / WAVES;
  static_assert(ROWS % PARTS == 0 && OWN * WAVES == SEGMENTS, "whole outputs, whole segments");

  const T *weight[ROWS][FRAGMENT_PIECES], *x[TOKENS][FRAGMENT_PIECES];
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      weight[r][p] = weight_row(job, r % PARTS, first_n + r / PARTS * TILE + piece_row(p)) + piece_k(p);
    }
    UNROLL
    for (int t = 0; t < TOKENS; t++) x[t][p] = x_row(job, first_token + t * TILE + piece_row(p)) + piece_k(p);
  }

  const int chunks = chunk_count(job.in);
  TileSum sums[OWN][TOKENS][ROWS];
  UNROLL
  for (int o = 0; o < OWN; o++) {
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      UNROLL
      for (int r = 0; r < ROWS; r++) clear(sums[o][t][r]);
    }
    const auto add_chunks = [&](int first, auto count) {
      Fragment<T> w[count.value][ROWS], v[count.value][TOKENS];
      UNROLL
      for (int c = 0; c < count.value; c++) {
        const int k = (first + c) * TILE_DEPTH;
        UNROLL
        for (int p = 0; p < FRAGMENT_PIECES; p++) {
          const bool inside = k + piece_k(p) < job.in;
          UNROLL
          for (int r = 0; r < ROWS; r++) w[c][r].pieces[p] = inside ? stream_piece(weight[r][p] + k) : zero_piece();
          UNROLL
          for (int t = 0; t < TOKENS; t++) v[c][t].pieces[p] = inside ? load_piece(x[t][p] + k) : zero_piece();
        }
      }
      UNROLL
      for (int c = 0; c < count.value; c++) {
        UNROLL
        for (int t = 0; t < TOKENS; t++) {
          UNROLL
          for (int r = 0; r < ROWS; r++) tile_multiply_add(sums[o][t][r], w[c][r], v[c][t]);
        }
      }
    };
    const int segment = o * WAVES + wave_id(), end = segment_end(chunks, segment);
    int c = segment == 0 ? 0 : segment_end(chunks, segment - 1);
    for (; c + AHEAD <= end; c += AHEAD) add_chunks(c, Constant<AHEAD>());
    for (; c < end; c++) add_chunks(c, Constant<1>());
  }

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
      if (n < job.out && token < job.tokens) finish(job, token, n, totals);
    }
    block_sync();
  }
}

// Many tokens: a block owns MANY_ROWS / PARTS outputs of MANY_TOKENS tokens, a wave a rectangle of tiles of them.
constexpr int MANY_ROWS = 128, MANY_TOKENS = 128;

template <class Job>
DEVICE void linear_many(const Job& job, int first_n, int first_token) {
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
    x_from[j] = x_row(job, first_token + i / ROW_PIECES) + i % ROW_PIECES * PIECE;
  }
  Fetches<W_FETCHES> w_fetches;
  Fetches<X_FETCHES> x_fetches;
  const auto is_inside = [&](int j, int k) { return k + (j * BLOCK + thread_id()) % ROW_PIECES * PIECE < job.in; };
  const auto slot_of = [](int j) {
    const int i = j * BLOCK + thread_id();
    return piece_slot(i / ROW_PIECES, i % ROW_PIECES);
  };
  const auto start = [&](int chunk) {
    const int k = chunk * TILE_DEPTH, stage = chunk % FETCH_STAGES;
    UNROLL
    for (int j = 0; j < W_FETCHES; j++) {
      fetch_start(w_fetches, j, w_tiles, stage * W_PIECES + slot_of(j), w_from[j] + k, is_inside(j, k));
    }
    UNROLL
    for (int j = 0; j < X_FETCHES; j++) {
      fetch_start(x_fetches, j, x_tiles, stage * X_PIECES + slot_of(j), x_from[j] + k, is_inside(j, k));
    }
  };
  const auto finish_fetches = [&](int chunk) {
    const int stage = chunk % FETCH_STAGES;
    UNROLL
    for (int j = 0; j < W_FETCHES; j++) fetch_finish(w_fetches, j, w_tiles, stage * W_PIECES + slot_of(j));
    UNROLL
    for (int j = 0; j < X_FETCHES; j++) fetch_finish(x_fetches, j, x_tiles, stage * X_PIECES + slot_of(j));
  };

  const int w_first = wave_id() % ROW_WAVES * WAVE_ROWS, x_first = wave_id() / ROW_WAVES * TOKENS * TILE;
  TileSum totals[TOKENS][ROWS], sums[TOKENS][ROWS];
  UNROLL
  for (int t = 0; t < TOKENS; t++) {
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      clear(totals[t][r]);
      clear(sums[t][r]);
    }
  }

  const int chunks = chunk_count(job.in);
  for (int c = 0; c < FETCH_STAGES - 1; c++) {
    if (c < chunks) {
      start(c);
      finish_fetches(c);
    }
    fetch_group();
  }
  int segment = 0;
  for (int c = 0; c < chunks; c++) {
    fetch_wait<FETCH_STAGES - 2>();
    // Chunk c has arrived, and every wave is done with chunk c - 1, whose place the next fetch takes.
    block_sync();
    const int next = c + FETCH_STAGES - 1;
    if (next < chunks) start(next);
    fetch_group();

    const int stage = c % FETCH_STAGES;
    Fragment<T> x[TOKENS];
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      load_fragment(x[t], x_tiles + stage * X_PIECES, x_first + t * TILE);
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      Fragment<T> w;
      load_fragment(w, w_tiles + stage * W_PIECES, w_first + r * TILE);
      UNROLL
      for (int t = 0; t < TOKENS; t++) tile_multiply_add(sums[t][r], w, x[t]);
    }
    if (next < chunks) finish_fetches(next);

    if (c + 1 < segment_end(chunks, segment)) continue;
    while (segment_end(chunks, segment) <= c + 1 && segment < SEGMENTS) segment++;
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      UNROLL
      for (int r = 0; r < ROWS; r++) {
        add(totals[t][r], sums[t][r]);
        clear(sums[t][r]);
      }
    }
  }

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
        for (int part = 0; part < PARTS; part++) parts[part] = totals[t][part * PART_TILES + r].values[i];
        if (n < job.out && token < job.tokens) finish(job, token, n, parts);
      }
    }
  }
}

}  // namespace forge
