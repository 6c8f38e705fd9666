// Dot products of packed weights and quantized activations over the lanes of a wave: what matmul_packed.hip and
// gate_up_swiglu_packed.hip are made of.
//
// One arithmetic for any number of rows: lane l adds up the blocks l, l + WAVE, l + 2 WAVE, ..., in order, and the
// lanes' sums are added in order, too. A row's bits depend on k alone.
#pragma once

#include "packed.h"

namespace forge {

// Tokens that a block multiplies while it reads the weight once.
constexpr int PACKED_TOKENS = 8;

// This lane's part of R rows of weights times T rows of activations, those `offsets` behind x. Every block of weights
// is asked for DEPTH turns before its use.
template <class F, int R, int T>
DEVICE void packed_dots(float (&sums)[R][T], const uint8_t* const (&weight)[R], const uint8_t* x,
                        const int (&offsets)[T], int blocks) {
  constexpr int DEPTH = T > 2 ? 1 : T == 2 ? 2 : sizeof(WeightPart<F>) > 24 ? 3 : 4;
  UNROLL
  for (int r = 0; r < R; r++) {
    UNROLL
    for (int t = 0; t < T; t++) sums[r][t] = 0.0f;
  }
  WeightPart<F> parts[DEPTH][R];
  UNROLL
  for (int d = 0; d < DEPTH; d++) {
    UNROLL
    for (int r = 0; r < R; r++)
      parts[d][r] = load_weight<F>(weight[r], min_of(lane_id() + d * WAVE, blocks - 1), blocks);
  }
  for (int first = lane_id(); first < blocks; first += DEPTH * WAVE) {
    UNROLL
    for (int d = 0; d < DEPTH; d++) {
      const int b = first + d * WAVE, next = b + DEPTH * WAVE;
      if (b < blocks) {
        UNROLL
        for (int t = 0; t < T; t++) {
          const InputPart input = load_input<F>(x, offsets[t], blocks * Q8_BLOCK, b);
          UNROLL
          for (int r = 0; r < R; r++) sums[r][t] = add_block<F>(sums[r][t], parts[d][r], input, b);
          if (t % 4 == 3) schedule_fence();
        }
      }
      if (next < blocks) {
        UNROLL
        for (int r = 0; r < R; r++) parts[d][r] = load_weight<F>(weight[r], next, blocks);
      }
    }
  }
}

// How many sums of lanes are added in order, and how far apart those of one value lie: the same lane's sums are then in
// different banks. Of a wave of 64, lanes l and l + 32 are added first.
constexpr int LANE_SUMS = WAVE < 32 ? WAVE : 32, LANE_STRIDE = LANE_SUMS + 1;

template <class Lanes>
DEVICE void store_lane_sum(Lanes lanes, int value, float sum) {
  if (WAVE > LANE_SUMS) sum += shuffle_xor(sum, LANE_SUMS);
  if (lane_id() < LANE_SUMS) lanes[value * LANE_STRIDE + lane_id()] = sum;
}
template <class Lanes>
DEVICE float sum_in_order(Lanes lanes, int value) {
  float sum = lanes[value * LANE_STRIDE];
  UNROLL
  for (int l = 1; l < LANE_SUMS; l++) sum += lanes[value * LANE_STRIDE + l];
  return sum;
}

}  // namespace forge
