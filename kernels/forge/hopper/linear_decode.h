// The linear layer of one row on Hopper, with the bits of linear_hopper.h's forms: a block owns sixteen rows of the
// weight at a time and goes on to others, so that what it prepares, the row in LDS, is prepared once. A wave has the
// segment of its number. While it multiplies BATCH chunks, as many are on their way: registers for both, and few
// enough instructions between, decide how fast weights come.
//
// A row is brought to LDS, some chunks of it by all lanes of a wave: bring_row(row, to, first, count). A job says what
// to multiply it with, and what becomes of the sums:
//   weight, out, in                           rows and elements of a row
//   prepare(job)                              asks for what it needs of the step, once inputs are there
//   held_of(job, n)                           a Held: what output n is added to, or rotated by, asked for early
//   finish_group(job, group, held, sums)      takes sixteen outputs, sums(i) of row i: all lanes of one wave together
//   IS_PAIR                                   two such matrices lie below each other, and a block takes a group of each
//                                             in turn: finish_group(job, group, of_first, of_second)
#pragma once

#include "../norm.h"
#include "linear_hopper.h"
#include "to_columns.h"

namespace forge {

constexpr int DECODE_PIECES = CHUNK / PIECE;
static_assert(LINEAR_DECODE_BLOCKS % TILE_GROUPS == 0, "a block's groups lie at one place of their tiles");

// A row of columns.h.
template <class T>
struct ColumnRow {
  const T* x;
  int rows;
};
template <class T>
DEVICE void bring_row(const ColumnRow<T>& row, Piece* to, int first, int count) {
  const int lane = lane_id();
  const size_t apart = static_cast<size_t>(row.rows) * CHUNK;
  const T* from = row.x + first * apart + lane % DECODE_PIECES * PIECE;
  for (int c = lane / DECODE_PIECES; c < count; c += WAVE / DECODE_PIECES) {
    fetch_piece(lds_address(to + c * DECODE_PIECES + lane % DECODE_PIECES), from + c * apart);
  }
  fetch_group();
  fetch_wait<0>();
  __syncwarp();
}

// A row of f32 that is normalized as rms_norm_columns does it, its sums of squares known: norm.h. One block counts what
// f16 cannot hold, for the others `saturated` is null.
template <class T>
struct NormedRow {
  const float *x, *weight, *parts;
  int in;
  float eps;
  int32_t* saturated;
};
template <class T>
DEVICE void bring_row(const NormedRow<T>& row, Piece* to, int first, int count) {
  const float scale = inv_rms_of_parts(row.parts, row.in, row.eps);
  struct Eight {
    T elements[PIECE];
  };
  for (int p = lane_id(); p < count * DECODE_PIECES; p += WAVE) {
    const int k = first * CHUNK + p * PIECE;
    Eight eight;
    UNROLL
    for (int i = 0; i < PIECE; i += 4) {
      const auto x = load_aligned<Floats4>(row.x + k + i), by = load_aligned<Floats4>(row.weight + k + i);
      UNROLL
      for (int j = 0; j < 4; j++) store_column(&eight.elements[i + j], x.f[j] * scale * by.f[j], row.saturated);
    }
    __builtin_memcpy(&to[p], &eight, sizeof(Piece));
  }
  __syncwarp();
}

template <class Job>
DEVICE void prepare(Job&) {}
// Sets of sums in LDS, of each matrix: of the next group a wave may write while one still adds.
template <class Job>
constexpr int ONE_SETS = Job::IS_PAIR ? 4 : 2;

// Work of a block in a grid of `stride` blocks; the segments of a row stay in LDS. IS_WHOLE: they are whole
// batches, which takes fewer instructions; else of any number of chunks.
template <class F, int BATCH, bool IS_WHOLE, class Row, class Job>
DEVICE void linear_decode_of(const Row& row, Job job, int block, int stride, Piece* columns, float* parts) {
  constexpr int APART = TILE_GROUPS * F::BYTES, ROW_BYTES = DECODE_PIECES * sizeof(Piece);
  constexpr int SETS = ONE_SETS<Job>;
  const int lane = lane_id(), segment = wave_id();
  const int groups = (job.out + GROUP_ROWS - 1) / GROUP_ROWS, chunks = job.in / CHUNK;
  const int first = IS_WHOLE ? chunks / SEGMENTS * segment : segment_begin(chunks, segment);
  const int count = IS_WHOLE ? chunks / SEGMENTS : segment_end(chunks, segment) - first;
  const int batches = IS_WHOLE ? count / BATCH : (count + BATCH - 1) / BATCH, last = (batches - 1) * BATCH;
  const auto has = [&](int chunk) { return IS_WHOLE || chunk < count; };
  LaneUnit unit = lane_unit<F>(job.weight + unit_place<F>(block, first, chunks), lane);
  // From the last batch of a group to the first of the block's next: of one matrix; from the first to the second.
  size_t on = (static_cast<size_t>(stride / TILE_GROUPS) * chunks - last) * APART, across = 0;
  int left = (groups - block + stride - 1) / stride * batches, loaded = 0;
  if constexpr (Job::IS_PAIR) {
    const size_t matrix = static_cast<size_t>(groups / TILE_GROUPS) * chunks * APART;
    across = matrix - static_cast<size_t>(last) * APART;
    on -= matrix;
    left *= 2;
  }
  bool is_second = false;
  typename F::Raw raw[2][BATCH];
  const auto fetch = [&](typename F::Raw(&to)[BATCH]) {
    UNROLL
    for (int d = 0; d < BATCH; d++) {
      if (!has(loaded * BATCH + d)) continue;
      to[d] = F::load(unit_after(unit, d * APART), [](const uint8_t* p, auto type) { return StreamLoad::of(p, type); });
    }
    const bool is_last = ++loaded == batches;
    const size_t by = is_last ? Job::IS_PAIR && !is_second ? across : on : static_cast<size_t>(BATCH) * APART;
    if (is_last) {
      loaded = 0;
      is_second = !is_second;
    }
    unit = {unit.pieces + by, unit.scales + by, unit.high + by};
    // Not to be computed again at every load.
    asm volatile("" : "+l"(unit.pieces), "+l"(unit.scales), "+l"(unit.high));
  };
  fetch(raw[0]);
  // The compiler moves the loads above behind the wait below, but none across a branch. No lane takes this one: to
  // bring the chunk to L2, or those behind it, was slower on an H200.
  const int ahead = BATCH + lane;
  if (lane < 0 && ahead < count) {
    bring_to_l2(job.weight + unit_place<F>(block, first + ahead, chunks), F::BYTES);
  }

  wait_for_inputs();
  prepare(job);
  Piece* const own = columns + segment * LINEAR_DECODE_CHUNKS * DECODE_PIECES;
  bring_row(row, own, first, count);
  // A lane names piece lane / 8, and lane / 8 + 4: the row stands for all eight columns.
  const uint32_t low = lds_address(own + lane / 8), high = lds_address(own + lane / 8 + 4);
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  typename Job::Held held{};
  int group = block, turn = 0, batch = 0;
  const auto compute = [&](const typename F::Raw(&from)[BATCH]) {
    const bool ends = batch + 1 == batches, finishes = wave_id() == turn / (Job::IS_PAIR ? 2 : 1) % WAVES;
    if constexpr (!Job::IS_PAIR) {
      const int n = group * GROUP_ROWS + lane;
      if (ends && finishes && lane < GROUP_ROWS && n < job.out) held = held_of(job, n);
    }
    UNROLL
    for (int d = 0; d < BATCH; d++) {
      const uint32_t place = (batch * BATCH + d) * ROW_BYTES;
      if (has(batch * BATCH + d)) multiply_unit<F>(sum, from[d], low + place, high + place);
    }
    batch++;
    if (!ends) return;
    float* const mine = parts + turn % SETS * SEGMENTS * GROUP_ROWS;
    if (lane % 4 == 0) {
      mine[segment * GROUP_ROWS + lane / 4] = sum[0];
      mine[segment * GROUP_ROWS + lane / 4 + 8] = sum[2];
    }
    UNROLL
    for (int i = 0; i < 4; i++) sum[i] = 0.0f;
    batch = 0;
    turn++;
    if (Job::IS_PAIR && turn % 2 == 1) return;
    block_sync();
    if (finishes) {
      const auto sum_of = [&](const float* set, int i) {
        float halves[2];
        UNROLL
        for (int h = 0; h < 2; h++) {
          halves[h] = 0.0f;
          UNROLL
          for (int s = 0; s < HALF; s++) halves[h] += set[(h * HALF + s) * GROUP_ROWS + i];
        }
        return (halves[0] + halves[1]) * F::SCALE;
      };
      const auto sums = [&](int i) { return sum_of(mine, i); };
      if constexpr (Job::IS_PAIR) {
        finish_group(
            job, group, [&](int i) { return sum_of(mine - SEGMENTS * GROUP_ROWS, i); }, sums);
      } else {
        finish_group(job, group, held, sums);
      }
    }
    group += stride;
  };
  for (;;) {
    if (left > 1) {
      fetch(raw[1]);
    } else {
      let_next_begin();
    }
    compute(raw[0]);
    if (--left == 0) return;
    if (left > 1) {
      fetch(raw[0]);
    } else {
      let_next_begin();
    }
    compute(raw[1]);
    if (--left == 0) return;
  }
}

template <class F, int BATCH, class Row, class Job>
DEVICE void linear_decode_in(const Row& row, const Job& job, int block, int stride, Piece* columns, float* parts) {
  if (job.in % (SEGMENTS * BATCH * CHUNK) == 0) {
    linear_decode_of<F, BATCH, true>(row, job, block, stride, columns, parts);
  } else {
    linear_decode_of<F, BATCH, false>(row, job, block, stride, columns, parts);
  }
}

template <class F, int BATCH, class Row, class Job>
DEVICE void linear_decode(const Row& row, const Job& job, int block, int stride) {
  SHARED(Piece, columns, (SEGMENTS * LINEAR_DECODE_CHUNKS * DECODE_PIECES));
  SHARED(float, parts, (ONE_SETS<Job> * SEGMENTS * GROUP_ROWS));
  linear_decode_in<F, BATCH>(row, job, block, stride, columns, parts);
}

// Two matrices of formats of their own, in a grid of `stride` blocks: the first `blocks` of them share one, the others
// the other, of which there may be more than it has groups.
template <class F, int FIRST_BATCH, class G, int SECOND_BATCH, class Row, class Job>
DEVICE void linear_decode_pair(const Row& row, const Job& first, const Job& second, int block, int blocks, int stride) {
  SHARED(Piece, columns, (SEGMENTS * LINEAR_DECODE_CHUNKS * DECODE_PIECES));
  SHARED(float, parts, (ONE_SETS<Job> * SEGMENTS * GROUP_ROWS));
  if (block < blocks) {
    linear_decode_in<F, FIRST_BATCH>(row, first, block, blocks, columns, parts);
  } else if ((block - blocks) * GROUP_ROWS < second.out) {
    linear_decode_in<G, SECOND_BATCH>(row, second, block - blocks, stride - blocks, columns, parts);
  }
}

}  // namespace forge
