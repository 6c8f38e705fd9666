// The linear layer on matrix units, in two forms with the same bits: y[t][n] = sum_k weight[n][k] * x[t][k].
//
// A row's elements are cut in SEGMENTS runs of whole chunks of TILE_DEPTH, by their number alone. A segment is summed
// by tile products in rising order, and the sums of the segments are added in order. The few form gives each segment to
// a wave and brings the weights straight from memory, once; the many form walks the segments one after the other and
// brings weights and x through LDS.
//
// A job is what to multiply and what becomes of the sums:
//   PARTS                       rows of the weight that make one output
//   weight, x, tokens, out, in  weight [PARTS, out, in], less than 2^31 elements, or with
//                               one part any number; x [tokens, in]; `in` is a multiple of PIECE
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

// Rows that a block reads, from its first on. A lane's place in them is a 32-bit offset, which takes half the registers
// of a pointer.
template <class T>
DEVICE const T* rows_from(const T* rows, int first, int in) {
  return rows + static_cast<size_t>(first) * in;
}
// Where row `row` of `rows` lies, or the last one for a row past the end: what is computed there is not stored.
DEVICE uint32_t row_offset(int row, int rows, int first, int in) {
  return static_cast<uint32_t>(min_of(row, rows - 1) - first) * static_cast<uint32_t>(in);
}
template <class Job>
DEVICE uint32_t part_offset(const Job& job, int part) {
  return static_cast<uint32_t>(part) * static_cast<uint32_t>(job.out) * static_cast<uint32_t>(job.in);
}

// Few tokens: a block owns ROWS / PARTS tiles of outputs and TOKENS tiles of tokens. About LOADS pieces of
// the weight are on their way to a lane at any time.
template <int ROWS, int TOKENS, int LOADS, class Job>
DEVICE void linear_few(const Job& job, int first_n, int first_token) {
  using T = typename Job::Element;
  constexpr int PARTS = Job::PARTS, OWN = SEGMENTS / WAVES;
  constexpr int AHEAD = max_of(1, LOADS / (ROWS * FRAGMENT_PIECES));  // chunks
  static_assert(ROWS % PARTS == 0 && OWN * WAVES == SEGMENTS, "whole outputs, whole segments");

  const T* weight = rows_from(job.weight, first_n, job.in);
  const T* x = rows_from(job.x, first_token, job.in);
  uint32_t w_offsets[ROWS][FRAGMENT_PIECES], x_offsets[TOKENS][FRAGMENT_PIECES];
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      w_offsets[r][p] = row_offset(first_n + r / PARTS * TILE + piece_row(p), job.out, first_n, job.in) +
                        part_offset(job, r % PARTS) + piece_k(p);
    }
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      x_offsets[t][p] = row_offset(first_token + t * TILE + piece_row(p), job.tokens, first_token, job.in) + piece_k(p);
    }
  }

  const auto load = [&](Fragment<T>(&w)[ROWS], Fragment<T>(&v)[TOKENS], int chunk, auto whole) {
    const int k = chunk * TILE_DEPTH;
    UNROLL
    for (int p = 0; p < FRAGMENT_PIECES; p++) {
      const bool inside = is_inside<whole.value>(k + piece_k(p), job.in);
      UNROLL
      for (int r = 0; r < ROWS; r++) {
        w[r].pieces[p] = inside ? stream_piece(weight + k + w_offsets[r][p]) : zero_piece();
      }
      UNROLL
      for (int t = 0; t < TOKENS; t++) v[t].pieces[p] = inside ? load_piece(x + k + x_offsets[t][p]) : zero_piece();
    }
  };

  const int chunks = chunk_count(job.in);
  TileSum sums[OWN][TOKENS][ROWS];
  UNROLL
  for (int o = 0; o < OWN; o++) {
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      UNROLL
      for (int r = 0; r < ROWS; r++) clear(sums[o][t][r]);
    }
    const int segment = o * WAVES + wave_id(), end = segment_end(chunks, segment);
    const int whole_end = min_of(end, job.in / TILE_DEPTH);
    int c = segment == 0 ? 0 : segment_end(chunks, segment - 1);
    // As soon as the fragments of a chunk are used, those of the chunk AHEAD of it take their place.
    Fragment<T> w[AHEAD][ROWS], v[AHEAD][TOKENS];
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
      if (c + a < whole_end) load(w[a], v[a], c + a, Constant<true>());
    }
    for (; c < whole_end; c += AHEAD) {
      UNROLL
      for (int a = 0; a < AHEAD; a++) {
        if (c + a < whole_end) multiply_tiles(sums[o], w[a], v[a]);
        if (c + a + AHEAD < whole_end) load(w[a], v[a], c + a + AHEAD, Constant<true>());
      }
    }
    if (whole_end < end) {
      load(w[0], v[0], whole_end, Constant<false>());
      multiply_tiles(sums[o], w[0], v[0]);
    }
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
  const T* weight = rows_from(job.weight, first_n, job.in);
  const T* x = rows_from(job.x, first_token, job.in);
  uint32_t w_offsets[W_FETCHES], x_offsets[X_FETCHES];
  UNROLL
  for (int j = 0; j < W_FETCHES; j++) {
    const int i = j * BLOCK + thread_id(), row = i / ROW_PIECES, of_wave = row % WAVE_ROWS;
    const int n = first_n + row / WAVE_ROWS * PART_ROWS + of_wave % PART_ROWS;
    w_offsets[j] =
        row_offset(n, job.out, first_n, job.in) + part_offset(job, of_wave / PART_ROWS) + i % ROW_PIECES * PIECE;
  }
  UNROLL
  for (int j = 0; j < X_FETCHES; j++) {
    const int i = j * BLOCK + thread_id();
    x_offsets[j] = row_offset(first_token + i / ROW_PIECES, job.tokens, first_token, job.in) + i % ROW_PIECES * PIECE;
  }
  Fetches<W_FETCHES> w_fetches;
  Fetches<X_FETCHES> x_fetches;
  const auto slot_of = [](int j) {
    const int i = j * BLOCK + thread_id();
    return piece_slot(i / ROW_PIECES, i % ROW_PIECES);
  };
  const auto start_chunk = [&](int chunk, auto whole) {
    const int k = chunk * TILE_DEPTH, stage = chunk % FETCH_STAGES;
    UNROLL
    for (int j = 0; j < W_FETCHES; j++) {
      const bool inside = is_inside<whole.value>(k + (j * BLOCK + thread_id()) % ROW_PIECES * PIECE, job.in);
      fetch_start(w_fetches, j, w_tiles, stage * W_PIECES + slot_of(j), weight + k + w_offsets[j], inside);
    }
    UNROLL
    for (int j = 0; j < X_FETCHES; j++) {
      const bool inside = is_inside<whole.value>(k + (j * BLOCK + thread_id()) % ROW_PIECES * PIECE, job.in);
      fetch_start(x_fetches, j, x_tiles, stage * X_PIECES + slot_of(j), x + k + x_offsets[j], inside);
    }
  };
  const auto start = [&](int chunk) {
    if (chunk < job.in / TILE_DEPTH) return start_chunk(chunk, Constant<true>());
    start_chunk(chunk, Constant<false>());
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
    Fragment<T> v[TOKENS];
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
      load_fragment(v[t], x_tiles + stage * X_PIECES, x_first + t * TILE);
    }
    Fragment<T> w[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      load_fragment(w[r], w_tiles + stage * W_PIECES, w_first + r * TILE);
    }
    multiply_tiles(sums, w, v);
    finish_fetches(next);  // past the last chunk: into a place that nobody reads again

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
