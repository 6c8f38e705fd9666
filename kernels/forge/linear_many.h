// The linear layer of linear_tile.h for many tokens: weights and x pass through LDS.
#pragma once

#include "linear_tile.h"

namespace forge {

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
  // Fragments have two places each, so that the next ones are loaded while these are multiplied. TURNS chunks name
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
