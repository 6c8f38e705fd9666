// Dot products of packed weights and quantized activations over the lanes of a wave: what matmul_packed.hip and
// gate_up_swiglu_packed.hip are made of.
//
// One arithmetic for any number of rows: lane l adds up the blocks l, l + WAVE, l + 2 WAVE, ..., in order, and the
// lanes' sums are added in order, too. A row's bits depend on k alone.
#pragma once

#include "contract.h"
#include "packed.h"

namespace forge {

// The lane's first blocks of R rows: asked for before anything else is known, they are there when it is.
template <class F, int R>
struct FirstParts {
  WeightPart<F> parts[R];
};
template <class F, int R>
DEVICE FirstParts<F, R> load_first(const uint8_t* const (&weight)[R], int blocks) {
  FirstParts<F, R> first;
  UNROLL
  for (int r = 0; r < R; r++) first.parts[r] = load_weight<F>(weight[r], min_of(lane_id(), blocks - 1), blocks);
  return first;
}

// T rows of quantized activations, each some bytes behind x.
template <int T>
struct InputRows {
  const uint8_t* x;
  int offsets[T];
};
template <class F, int T>
DEVICE InputPart input_part(const InputRows<T>& rows, int t, int b, int blocks) {
  return load_input<F>(rows.x, rows.offsets[t], blocks * Q8_BLOCK, b);
}

// This lane's part of R rows of weights times T rows of activations.
template <class F, int R, int T, class Input>
DEVICE void packed_dots(float (&sums)[R][T], FirstParts<F, R> weights, const uint8_t* const (&weight)[R],
                        const Input& inputs, int blocks) {
  UNROLL
  for (int r = 0; r < R; r++) {
    UNROLL
    for (int t = 0; t < T; t++) sums[r][t] = 0.0f;
  }
  for (int b = lane_id(); b < blocks; b += WAVE) {
    UNROLL
    for (int t = 0; t < T; t++) {
      const InputPart input = input_part<F>(inputs, t, b, blocks);
      UNROLL
      for (int r = 0; r < R; r++) sums[r][t] = add_block<F>(sums[r][t], weights.parts[r], input, b);
      if (t % 4 == 3) schedule_fence();
    }
    if (b + WAVE < blocks) {
      UNROLL
      for (int r = 0; r < R; r++) weights.parts[r] = load_weight<F>(weight[r], b + WAVE, blocks);
    }
  }
}

// Number of lanes' sums that are added in order, and the distance between those of one value: the same lane's sums are
// then in different banks. Of a wave of 64, lanes l and l + 32 are added first.
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

// If four blocks of four waves have 128 registers a lane each.
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
constexpr bool MANY_REGISTERS = true;
#else
constexpr bool MANY_REGISTERS = false;
#endif

// Rows of the weight that a block multiplies, and a wave at a time: of one row of activations more where a block has
// fewer waves, and each has registers for it, so that as many bytes are on their way.
constexpr int BLOCK_ROWS = MATMUL_PACKED_ROWS, ROWS_AT_ONCE = 2;
constexpr int ROWS_ALONE = MANY_REGISTERS ? BLOCK_ROWS / WAVES : ROWS_AT_ONCE;

// Addresses of a wave's rows, the first of them `first`; a row past the last is the last.
template <class F, int R>
DEVICE void rows_from(const uint8_t* (&rows)[R], const uint8_t* weight, int first, int out, int blocks) {
  UNROLL
  for (int i = 0; i < R; i++) {
    rows[i] = weight + min_of(first + i, out - 1) * packed_row_bytes<F>(blocks);
  }
}
// A block's rows, of which a wave has asked for what it begins with, times T rows of activations: leaves the lanes'
// sums of row r and input t as value t * BLOCK_ROWS + r.
template <class F, int T, int R, class Input, class Lanes>
DEVICE void multiply_rows(int first, FirstParts<F, R> begun, const uint8_t* weight, const Input& inputs, int out,
                          int blocks, Lanes lanes) {
  for (int turn = 0; turn < BLOCK_ROWS; turn += WAVES * R) {
    const int r = turn + wave_id() * R;
    const uint8_t* rows[R];
    rows_from<F>(rows, weight, first + r, out, blocks);
    if (turn > 0) begun = load_first<F>(rows, blocks);
    float sums[R][T];
    packed_dots<F>(sums, begun, rows, inputs, blocks);
    UNROLL
    for (int i = 0; i < R; i++) {
      UNROLL
      for (int t = 0; t < T; t++) store_lane_sum(lanes, t * BLOCK_ROWS + r + i, sums[i][t]);
    }
  }
  let_next_begin();
  block_sync();
}

// Calls body(Constant<T>) with the least T of 1, 2, 4, 8 up to MOST that is no less than `count`.
template <int MOST, class Body>
DEVICE void with_tokens(int count, Body body) {
  if constexpr (MOST > 1) {
    if (count > MOST / 2) return body(Constant<MOST>{});
    return with_tokens<MOST / 2>(count, body);
  } else {
    body(Constant<1>{});
  }
}

}  // namespace forge
