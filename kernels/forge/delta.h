// Gated delta net, Yang, Kautz & Hatamizadeh (2025): a state a head, which every row of a sequence changes. It is kept
// from step to step, in two copies: a slice reads one and writes the other, so that it can run again.
#pragma once

#include "contract.h"
#include "dot.h"

namespace forge {

// Rows of one sequence in a step, and which states they go from and to.
//
// Draft tokens may turn out to be wrong, so the state after them is not written. The inputs of their rows are kept
// instead (the replay rows), and the next slice replays those that were accepted before its own rows: the same
// operations on the same values, so the same bits as without draft tokens.
struct StateSlice {
  int first, rows;
  int source;      // NO_STATE: nothing came before
  int target;      // NO_STATE: none is written
  int stored;      // rows of the slice after which the state is written: all; 0 with draft tokens
  int replayed;    // rows that follow the source and come before the slice
  int replay_row;  // the first of them among the replay rows
};
DEVICE StateSlice state_slice(const int32_t* slices, int slice) {
  const int32_t* words = slices + static_cast<size_t>(slice) * SLICE_WORDS;
  return StateSlice{words[0], words[1], words[2], words[3], words[4], words[5], words[6]};
}

// Elements of a replay row of a delta net: what its convolution takes, q, k and v, beta and alpha.
DEVICE int delta_replay_columns(int channels, int value_heads) { return 2 * (channels + value_heads); }

// ln(1 + e^x)
DEVICE float softplus(float x) { return x > 20.0f ? x : log_of(1.0f + exp_of(x)); }

// True if a lane's element e of N is one: a wave may be wider than a row.
template <int N>
DEVICE bool lane_has(int e) {
  return N % WAVE == 0 || e * WAVE + lane_id() < N;
}
// One row of a state: N elements, each lane its own.
template <int N>
using StateRow = float[lane_elements(N)];
template <int N, class From>  // a pointer, or an array in LDS
DEVICE void load_row(float* row, From from) {
  SIMD
  for (int e = 0; e < lane_elements(N); e++) row[e] = lane_has<N>(e) ? from[e * WAVE + lane_id()] : 0.0f;
}
template <int N>
DEVICE void store_row(const float* row, float* to) {
  SIMD
  for (int e = 0; e < lane_elements(N); e++) {
    if (lane_has<N>(e)) to[e * WAVE + lane_id()] = row[e];
  }
}

// Sums over the lanes of a wave, each to the bit that of wave_sum. While there are several, lanes exchange halves of
// them, so that both halves are added at once.
template <int COUNT, int OFFSET = WAVE / 2>
DEVICE void wave_sums(float* values) {
  static_assert((COUNT & (COUNT - 1)) == 0, "halves");
  if constexpr (OFFSET > 0 && COUNT > 1) {
    const bool is_upper = (lane_id() & OFFSET) != 0;
    UNROLL
    for (int i = 0; i < COUNT / 2; i++) {
      const float low = values[i], high = values[COUNT / 2 + i];
      values[i] = (is_upper ? high : low) + shuffle_xor(is_upper ? low : high, OFFSET);
    }
    wave_sums<COUNT / 2, OFFSET / 2>(values);
  } else if constexpr (OFFSET > 0) {
    values[0] += shuffle_xor(values[0], OFFSET);
    wave_sums<COUNT, OFFSET / 2>(values);
  }
}
// Calls give(i, wave_sum(values[i])) for each i, all lanes of a wave together, each i by one of them.
template <int COUNT, class Give>
DEVICE void give_sums(float (&values)[COUNT], Give give) {
  wave_sums<COUNT>(values);
  // Sums that a lane has, and lanes that have the same.
  constexpr int HELD = COUNT > WAVE ? COUNT / WAVE : 1, ALIKE = COUNT > WAVE ? 1 : WAVE / COUNT;
  if (lane_id() % ALIKE != 0) return;
  UNROLL
  for (int i = 0; i < HELD; i++) give(lane_id() / ALIKE * HELD + i, values[i]);
}

#if WAVE == 1
// row *= decay. @return this lane's part of row · k
template <int N>
DEVICE float decay_and_dot(float* row, float decay, const float* k) {
  static_assert(N % (2 * SIMD_WIDTH) == 0, "whole vectors");
  const Vector factor = broadcast(decay), zero = vector_zero();
  Vector even = zero, odd = zero;
  for (int i = 0; i < N; i += 2 * SIMD_WIDTH) {
    const Vector first = multiply_add(load_vector(row + i), factor, zero);
    const Vector second = multiply_add(load_vector(row + i + SIMD_WIDTH), factor, zero);
    store_vector(row + i, first);
    store_vector(row + i + SIMD_WIDTH, second);
    even = multiply_add(first, load_vector(k + i), even);
    odd = multiply_add(second, load_vector(k + i + SIMD_WIDTH), odd);
  }
  return horizontal_sum(add(even, odd));
}
// row += delta * k. @return this lane's part of row · q
template <int N>
DEVICE float learn_and_dot(float* row, float delta, const float* k, const float* q) {
  const Vector factor = broadcast(delta);
  Vector even = vector_zero(), odd = vector_zero();
  for (int i = 0; i < N; i += 2 * SIMD_WIDTH) {
    const Vector first = multiply_add(factor, load_vector(k + i), load_vector(row + i));
    const Vector second = multiply_add(factor, load_vector(k + i + SIMD_WIDTH), load_vector(row + i + SIMD_WIDTH));
    store_vector(row + i, first);
    store_vector(row + i + SIMD_WIDTH, second);
    even = multiply_add(first, load_vector(q + i), even);
    odd = multiply_add(second, load_vector(q + i + SIMD_WIDTH), odd);
  }
  return horizontal_sum(add(even, odd));
}
#else
template <int N>
DEVICE float decay_and_dot(float* row, float decay, const float* k) {
  float sum = 0.0f;
  UNROLL
  for (int e = 0; e < lane_elements(N); e++) {
    row[e] *= decay;
    sum = multiply_add(row[e], k[e], sum);
  }
  return sum;
}
template <int N>
DEVICE float learn_and_dot(float* row, float delta, const float* k, const float* q) {
  float sum = 0.0f;
  UNROLL
  for (int e = 0; e < lane_elements(N); e++) {
    row[e] = multiply_add(delta, k[e], row[e]);
    sum = multiply_add(row[e], q[e], sum);
  }
  return sum;
}
#endif

}  // namespace forge
