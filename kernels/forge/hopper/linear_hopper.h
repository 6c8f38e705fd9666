// The linear layer on Hopper, in forms with the same bits: y[t][n] = sum_k weight[n][k] * x[t][k], weights in the
// fragments of fragments.h, x in the columns of columns.h.
//
// A row's chunks are cut in SEGMENTS runs by their number alone. A segment is a chain of products in rising order; the
// segments of each half are added in order, then the halves. The few form gives each segment to a wave; the wide forms
// give all of it, or each half, to a group of four waves that multiply 64 rows at once.
//
// A job says what to multiply and what becomes of the sums:
//   weight, tiles, in                tiles of 64 rows; elements of a row
//   x, x_rows, tokens                columns, how many a chunk has; where the number of those that count lies
//   finish(job, t, n, sum)           takes output n of token t
#pragma once

#include "linear_few.h"

namespace forge {

// Sharing of work between the two groups of four waves of a block: HALVES take a half of k each of the same 64 rows;
// PAIRS take 64 rows each of a matrix; GATED take the same 64 rows of gate and of up.
enum class Sharing { HALVES, PAIRS, GATED };

constexpr int WIDE_GROUP = 128, WIDE_BLOCK = LINEAR_WIDE_THREADS, WIDE_LDS = LINEAR_WIDE_LDS;
static_assert(WIDE_BLOCK == 3 * WIDE_GROUP, "two groups that multiply, one that brings");
template <class F, int N, Sharing S>
struct WideLayout {
  static constexpr bool IS_HALVED = S == Sharing::HALVES;
  static constexpr int SHARERS = IS_HALVED ? WIDE_GROUP : BLOCK;  // threads that share tokens and stages
  static constexpr int X_BYTES = N * 128, W_BYTES = SHARERS / WAVE * F::BYTES;
  static constexpr int STAGE_BYTES = (X_BYTES + W_BYTES + 1023) / 1024 * 1024;
  static constexpr int ZEROS = 1024, BARRIERS = 1024;  // eight columns of zeros, then the barriers
  // The first half's sums, where a group takes both.
  static constexpr int STASH_BYTES = IS_HALVED ? 0 : BLOCK * N / 2 * 4;
  static constexpr int GROUPS = BLOCK / SHARERS;
  static constexpr int STAGES = min_of(8, (WIDE_LDS - ZEROS - BARRIERS - STASH_BYTES) / (STAGE_BYTES * GROUPS));
  static constexpr int BYTES = ZEROS + BARRIERS + STASH_BYTES + GROUPS * STAGES * STAGE_BYTES;
  static_assert(STAGES >= 3, "one computed on, one behind it, one on its way");
};

// N tokens; all threads of a block of WIDE_BLOCK. The weights of a chunk are unpacked while the matrix unit multiplies
// the chunk before it; a wave of its own has the copy engine bring what comes next.
template <class F, int N, Sharing S, class Job>
DEVICE void linear_wide(Job job, int row_block, int first_token) {
  using T = typename F::Element;
  using Layout = WideLayout<F, N, S>;
  constexpr int STAGES = Layout::STAGES, SHARERS = Layout::SHARERS;
  constexpr bool IS_HALVED = Layout::IS_HALVED;
  extern __shared__ __align__(1024) uint8_t lds[];
  uint64_t* const full = reinterpret_cast<uint64_t*>(lds + Layout::ZEROS);
  uint64_t* const empty = full + Layout::GROUPS * STAGES;
  uint8_t* const all_stages = lds + Layout::ZEROS + Layout::BARRIERS;

  const int lane = lane_id(), half = thread_id() / WIDE_GROUP, in_group = thread_id() % WIDE_GROUP;
  const int tokens = *job.tokens;
  if (thread_id() < Layout::GROUPS * STAGES) {
    barrier_begin(full + thread_id(), 1 + SHARERS / WIDE_GROUP);
    barrier_begin(empty + thread_id(), SHARERS / WAVE);
  }
  uint32_t* const zeros = reinterpret_cast<uint32_t*>(lds);
  if (thread_id() < Layout::ZEROS / 4) zeros[thread_id()] = 0;
  show_barriers();
  block_sync();
  const int chunks = (job.in + CHUNK - 1) / CHUNK;
  const auto first_segment_of = [&](int sharing) { return IS_HALVED ? sharing * HALF : 0; };
  const auto last_segment_of = [&](int sharing) { return IS_HALVED ? (sharing + 1) * HALF : SEGMENTS; };
  const auto first_chunk_of = [&](int sharing) { return segment_begin(chunks, first_segment_of(sharing)); };
  const auto count_of = [&](int sharing) {
    return segment_end(chunks, last_segment_of(sharing) - 1) - first_chunk_of(sharing);
  };
  wait_for_inputs();
  if (first_token >= tokens) return;

  if (half == 2) {
    give_registers();
    // One wave of each group's stages loads the tokens, and one the weights of four waves.
    constexpr int TILES = SHARERS / WIDE_GROUP, TILE_BYTES = TILE_GROUPS * F::BYTES;
    const int g = IS_HALVED ? in_group / WAVE / 2 : 0, part = IS_HALVED ? in_group / WAVE % 2 : in_group / WAVE;
    if (part > TILES || lane > 0) return;
    const size_t first = first_chunk_of(g);
    const uint8_t* from;
    int bytes, offset;
    size_t apart;
    if (part == 0) {
      apart = static_cast<size_t>(job.x_rows) * CHUNK * sizeof(T);
      from = reinterpret_cast<const uint8_t*>(job.x + static_cast<size_t>(first_token) * CHUNK) + first * apart;
      bytes = Layout::X_BYTES;
      offset = 0;
    } else {
      int tile = S == Sharing::PAIRS ? min_of(row_block * 2 + part - 1, job.tiles - 1) : row_block;
      if (S == Sharing::GATED) tile += (part - 1) * job.tiles;
      apart = TILE_BYTES;
      from = job.weight + (static_cast<size_t>(tile) * chunks + first) * TILE_BYTES;
      bytes = TILE_BYTES;
      offset = Layout::X_BYTES + (part - 1) * TILE_BYTES;
    }
    uint8_t* const to = all_stages + g * STAGES * Layout::STAGE_BYTES + offset;
    const int count = count_of(g);
    for (int c = 0, stage = 0, parity = 1; c < count; c++) {
      uint64_t* const barrier = full + g * STAGES + stage;
      barrier_wait(empty + g * STAGES + stage, parity);
      barrier_announce(barrier, bytes);
      bring(to + stage * Layout::STAGE_BYTES, from, bytes, barrier);
      from += apart;
      if (++stage == STAGES) {
        stage = 0;
        parity ^= 1;
      }
    }
    return;
  }

  take_registers();
  // A wave's sixteen rows.
  const int sharing = IS_HALVED ? half : 0;
  const int first_group = S == Sharing::PAIRS ? row_block * 8 + wave_id() : row_block * 4 + wave_id() % 4;
  const int first_segment = first_segment_of(sharing), last_segment = last_segment_of(sharing),
            count = count_of(sharing);
  uint8_t* const stages = all_stages + sharing * STAGES * Layout::STAGE_BYTES;
  uint64_t *const own_full = full + sharing * STAGES, *const own_empty = empty + sharing * STAGES;
  UnitFragments a[2];
  const auto unpack = [&](UnitFragments& unit, int stage) {
    const auto load = [](const uint8_t* p, auto type) { return load_aligned<decltype(type)>(p); };
    const uint8_t* from =
        stages + stage * Layout::STAGE_BYTES + Layout::X_BYTES + wave_id() % (SHARERS / WAVE) * F::BYTES;
    F::unpack(unit, F::load(lane_unit<F>(from, lane), load));
  };
  const uint64_t no_columns = columns_at(zeros, 0);
  int stage = 0, parity = 0, released = -1, taken = 0;  // of the chunk that is multiplied next
  if (count > 0) {
    barrier_wait(own_full, 0);
    unpack(a[0], 0);
  }

  WideSum<N> sum, total;
  UNROLL
  for (int i = 0; i < N / 2; i++) total.values[i] = 0.0f;
  float* const stash =
      reinterpret_cast<float*>(all_stages + Layout::GROUPS * STAGES * Layout::STAGE_BYTES) + thread_id();
  ROLLED
  for (int segment = first_segment; segment < last_segment; segment++) {
    // Chunks are taken two at a time: an odd number ends with columns of zeros.
    const int left = segment_end(chunks, segment) - segment_begin(chunks, segment);
    const auto turn = [&](auto which, int keep, bool is_chunk, bool next_is_chunk) {
      constexpr int P = which.value;
      const uint64_t columns = is_chunk ? columns_at(stages + stage * Layout::STAGE_BYTES, 1024) : no_columns;
      wide_fence();
      UNROLL
      for (int s = 0; s < STEPS; s++) multiply_wide<T>(sum, a[P].parts[s], columns + 2 * s, s > 0 ? 1 : keep);
      wide_commit();
      int next_stage = stage;
      if (next_is_chunk) {
        next_stage = stage + 1 == STAGES ? 0 : stage + 1;
        parity ^= next_stage == 0;
        if (taken + 1 < count) barrier_wait(own_full + next_stage, parity);
      }
      wide_wait<1>();
      if (released >= 0 && lane == 0) barrier_arrive(own_empty + released);
      released = next_is_chunk ? stage : -1;
      unpack(a[1 - P], next_stage);
      if (next_is_chunk) taken++;
      stage = next_stage;
    };
    ROLLED
    for (int i = 0; i < left; i += 2) {
      turn(Constant<0>(), i > 0, true, i + 1 < left);
      turn(Constant<1>(), 1, i + 1 < left, true);
    }
    wide_wait<0>();
    settle(sum);
    if (left > 0) {
      UNROLL
      for (int i = 0; i < N / 2; i++) total.values[i] += sum.values[i];
    }
    if (!IS_HALVED && segment == HALF - 1) {
      UNROLL
      for (int i = 0; i < N / 2; i++) {
        stash[i * BLOCK] = total.values[i];
        total.values[i] = 0.0f;
      }
    }
  }
  let_next_begin();
  if (!IS_HALVED) {
    UNROLL
    for (int i = 0; i < N / 2; i++) total.values[i] = stash[i * BLOCK] + total.values[i];
  }

  const auto finish_value = [&](int i, float value) {
    const int n = first_group * GROUP_ROWS + wide_row(i), t = first_token + wide_column(i);
    if (n < job.out && t < tokens) finish(job, t, n, value);
  };
  if constexpr (S == Sharing::PAIRS) {
    UNROLL
    for (int i = 0; i < N / 2; i++) finish_value(i, total.values[i] * F::SCALE);
  } else {
    // Each group gives the other what that one finishes.
    constexpr int EACH = N / 4;
    group_sync(1, 2 * WIDE_GROUP);
    float* const given = reinterpret_cast<float*>(all_stages) + in_group;
    UNROLL
    for (int i = 0; i < EACH; i++) {
      given[(half * EACH + i) * WIDE_GROUP] = half == 0 ? total.values[EACH + i] : total.values[i];
    }
    group_sync(1, 2 * WIDE_GROUP);
    UNROLL
    for (int i = 0; i < EACH; i++) {
      const float theirs = given[((1 - half) * EACH + i) * WIDE_GROUP];
      const float ours = half == 0 ? total.values[i] : total.values[EACH + i];
      const float first = half == 0 ? ours : theirs, second = half == 0 ? theirs : ours;
      finish_value(half * EACH + i,
                   S == Sharing::GATED ? silu(first * F::SCALE) * (second * F::SCALE) : (first + second) * F::SCALE);
    }
  }
}

}  // namespace forge
