// The linear layer on Hopper for few tokens: a block owns sixteen rows of the weight, and a wave multiplies a segment
// of their chunks. linear_hopper.h has the forms for more, with the same bits, and says what a job is.
#pragma once

#include "../fetch.h"
#include "columns.h"
#include "fragments.h"
#include "hopper.h"

namespace forge {

constexpr int SEGMENTS = 8, HALF = SEGMENTS / 2;
DEVICE int segment_end(int chunks, int s) { return chunks * (s + 1) / SEGMENTS; }
DEVICE int segment_begin(int chunks, int s) { return s == 0 ? 0 : segment_end(chunks, s - 1); }

// sum += the products of a unit's fragments and of eight columns.
template <class F>
DEVICE void multiply_columns(float (&sum)[4], const UnitFragments& a, const uint32_t (&b)[2][4]) {
  UNROLL
  for (int s = 0; s < STEPS; s++) {
    multiply_few<typename F::Element>(sum, a.parts[s], b[s / 2][s % 2 * 2], b[s / 2][s % 2 * 2 + 1]);
  }
}
// The same of a unit as it was loaded, and of the columns whose pieces a lane names.
template <class F>
DEVICE void multiply_unit(float (&sum)[4], const typename F::Raw& weights, uint32_t low, uint32_t high) {
  uint32_t b[2][4];
  load_columns(b[0], low);
  load_columns(b[1], high);
  UnitFragments a;
  F::unpack(a, weights);
  multiply_columns<F>(sum, a, b);
}
// The same of SUMS times eight columns behind each other.
template <class F, int SUMS>
DEVICE void multiply_unit(float (&sums)[SUMS][4], const typename F::Raw& weights, uint32_t low, uint32_t high) {
  if constexpr (SUMS == 1) {
    multiply_unit<F>(sums[0], weights, low, high);
  } else {
    UnitFragments a;
    F::unpack(a, weights);
    UNROLL
    for (int t = 0; t < SUMS; t++) {
      constexpr int APART = 8 * 8 * sizeof(Piece);
      uint32_t b[2][4];
      load_columns(b[0], low + t * APART);
      load_columns(b[1], high + t * APART);
      multiply_columns<F>(sums[t], a, b);
    }
  }
}

// LDS of linear_few for ROWS tokens: of the columns a wave brings as many chunks at a time, those of its segment alone.
template <int ROWS>
struct FewLayout {
  static constexpr int PIECES = ROWS * 8, ROUND = ROWS > 8 ? 4 : 32 / ROWS;
  static constexpr int COLUMNS = SEGMENTS * ROUND * PIECES, PARTS = SEGMENTS * ROWS * GROUP_ROWS;
  static constexpr int BYTES = COLUMNS * sizeof(Piece) + PARTS * sizeof(float);
};

// Up to ROWS tokens, which are 1, 8 or 16: a block owns sixteen rows of the weight. DEPTH chunks of weights are on
// their way. `columns` and `parts` are the block's LDS.
template <class F, int ROWS, int DEPTH, class Job>
DEVICE void linear_few_in(Piece* columns, float* parts, Job job, int group) {
  using T = typename F::Element;
  constexpr int PIECES = FewLayout<ROWS>::PIECES, ROUND = FewLayout<ROWS>::ROUND, SUMS = (ROWS + 7) / 8;
  constexpr int APART = TILE_GROUPS * F::BYTES;
  const int lane = lane_id(), segment = wave_id();
  const int chunks = (job.in + CHUNK - 1) / CHUNK, first = segment_begin(chunks, segment);
  const int count = segment_end(chunks, segment) - first;
  LaneUnit unit = lane_unit<F>(job.weight + unit_place<F>(group, first, chunks), lane);
  // Not to be computed again at every load.
  const auto keep = [&] { asm volatile("" : "+l"(unit.pieces), "+l"(unit.scales), "+l"(unit.high)); };
  keep();
  const auto load = [](const uint8_t* p, auto type) { return StreamLoad::of(p, type); };
  typename F::Raw raw[DEPTH];
  UNROLL
  for (int d = 0; d < DEPTH; d++) {
    if (d < count) raw[d] = F::load(unit_after(unit, d * APART), load);
  }

  wait_for_inputs();
  const int tokens = *job.tokens;
  const uint32_t own = lds_address(columns + segment * ROUND * PIECES);
  // Rows past the last token are there; their sums are not used.
  const size_t apart = static_cast<size_t>(job.x_rows) * CHUNK;
  const T* x_from = job.x + first * apart + lane % PIECES * PIECE;
  const auto fetch = [&](int from) {
    const int end = min_of(count, from + ROUND);
    if constexpr (PIECES < WAVE) {
      for (int c = from + lane / PIECES; c < end; c += WAVE / PIECES) {
        fetch_piece(own + ((c - from) * PIECES + lane % PIECES) * sizeof(Piece), x_from + c * apart);
      }
    } else {
      for (int c = from; c < end; c++) {
        UNROLL
        for (int p = 0; p < PIECES; p += WAVE) {
          fetch_piece(own + ((c - from) * PIECES + p + lane) * sizeof(Piece), x_from + c * apart + p * PIECE);
        }
      }
    }
    fetch_group();
    fetch_wait<0>();
    __syncwarp();
  };

  // A lane names row lane % 8 of pieces lane / 8 and lane / 8 + 4. One row stands for all eight.
  const int row = min_of(lane % 8, ROWS - 1);
  const uint32_t low = own + column_slot(row, lane / 8) * sizeof(Piece);
  const uint32_t high = own + column_slot(row, lane / 8 + 4) * sizeof(Piece);
  float sums[SUMS][4] = {};
  const auto multiply = [&](const typename F::Raw& weights, uint32_t place) {
    multiply_unit<F>(sums, weights, low + place, high + place);
  };
  static_assert(ROUND % DEPTH == 0, "rounds are of whole turns");
  int c = 0;
  for (; c + 2 * DEPTH <= count; c += DEPTH) {
    if (c % ROUND == 0) fetch(c);
    unit = unit_after(unit, DEPTH * APART);
    keep();
    const uint32_t place = c % ROUND * PIECES * sizeof(Piece);
    UNROLL
    for (int d = 0; d < DEPTH; d++) {
      multiply(raw[d], place + d * PIECES * sizeof(Piece));
      raw[d] = F::load(unit_after(unit, d * APART), load);
    }
  }
  for (; c < count; c += DEPTH) {
    if (c % ROUND == 0) fetch(c);
    unit = unit_after(unit, DEPTH * APART);
    keep();
    const uint32_t place = c % ROUND * PIECES * sizeof(Piece);
    UNROLL
    for (int d = 0; d < DEPTH; d++) {
      if (c + d < count) multiply(raw[d], place + d * PIECES * sizeof(Piece));
      if (c + d + DEPTH < count) raw[d] = F::load(unit_after(unit, d * APART), load);
    }
  }
  let_next_begin();
  UNROLL
  for (int i = 0; i < SUMS * 4; i++) {
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (column < ROWS) parts[(segment * ROWS + column) * GROUP_ROWS + lane / 4 + i % 4 / 2 * 8] = sums[i / 4][i % 4];
  }
  block_sync();
  for (int i = thread_id(); i < ROWS * GROUP_ROWS; i += BLOCK) {
    float halves[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
      halves[h] = 0.0f;
      UNROLL
      for (int s = 0; s < HALF; s++) halves[h] += parts[(h * HALF + s) * ROWS * GROUP_ROWS + i];
    }
    const int t = i / GROUP_ROWS, n = group * GROUP_ROWS + i % GROUP_ROWS;
    if (t < tokens && n < job.out) finish(job, t, n, (halves[0] + halves[1]) * F::SCALE);
  }
}

// linear_few_in with LDS of its own.
template <class F, int ROWS, int DEPTH, class Job>
DEVICE void linear_few(Job job, int group) {
  SHARED(Piece, columns, (FewLayout<ROWS>::COLUMNS));
  SHARED(float, parts, (FewLayout<ROWS>::PARTS));
  linear_few_in<F, ROWS, DEPTH>(columns, parts, job, group);
}

}  // namespace forge
