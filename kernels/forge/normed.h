// A row's norm, quantized as rms_norm_quantize does, by each block that multiplies it: the launch of a norm takes
// longer than to do its work anew in every block, as long as there is one row.
#pragma once

#include "norm.h"
#include "packed_dot.h"
#include "quantize.h"

namespace forge {

// In LDS: sixteen quants a piece, a scale a block, and a sum a piece.
template <class Pieces, class Scales, class Sums>
struct NormedRow {
  Pieces pieces;
  Scales scales;
  Sums sums;
};
template <class Pieces, class Scales, class Sums>
DEVICE NormedRow<Pieces, Scales, Sums> normed_row(Pieces pieces, Scales scales, Sums sums) {
  return {pieces, scales, sums};
}
#define NORMED_ROW(name)                                  \
  SHARED(Words4, name##_pieces, (NORMED_MOST / 16));      \
  SHARED(float, name##_scales, (NORMED_MOST / Q8_BLOCK)); \
  SHARED(int, name##_sums, (NORMED_MOST / 16));           \
  const auto name = normed_row(name##_pieces + 0, name##_scales + 0, name##_sums + 0)

template <class F, class Pieces, class Scales, class Sums>
DEVICE InputPart input_part(const NormedRow<Pieces, Scales, Sums>& row, int, int b, int) {
  InputPart part{row.pieces[2 * b], row.pieces[2 * b + 1], row.scales[b], 0, 0};
  if (F::USES_SUMS) {
    part.sum_low = row.sums[2 * b];
    part.sum_high = row.sums[2 * b + 1];
  }
  return part;
}

// All threads of a block together. The pieces of a quantized block are of neighbouring lanes, or of one.
template <class Row>
DEVICE void normalize_row(const Row& row, const NormInput& input, int blocks) {
  constexpr int ELEMENTS = 16, HELD = WAVE == 1 ? 2 : 1;
  const float scale = inv_rms_of_parts(input.parts, blocks * Q8_BLOCK, input.eps);
  for (int from = 0; from < 2 * blocks; from += HELD * BLOCK) {
    const int piece = from + HELD * thread_id();
    // Lanes past the row's end take part in the shuffles, too.
    const int first = min_of(piece, 2 * blocks - HELD) * ELEMENTS;
    float values[HELD * ELEMENTS];
    uint32_t bits = 0;
    UNROLL
    for (int i = 0; i < HELD * ELEMENTS; i += 4) {
      const auto x = load_aligned<Floats4>(input.x + first + i);
      const auto weight = load_aligned<Floats4>(input.weight + first + i);
      UNROLL
      for (int j = 0; j < 4; j++) {
        values[i + j] = x.f[j] * scale * weight.f[j];
        bits = max_of(bits, magnitude_bits(values[i + j]));
      }
    }
    if (HELD == 1) bits = max_of(bits, static_cast<uint32_t>(shuffle_xor(static_cast<int>(bits), 1)));
    float largest;
    __builtin_memcpy(&largest, &bits, 4);
    const Q8Scale by = q8_scale(largest);
    if (piece >= 2 * blocks) continue;
    UNROLL
    for (int p = 0; p < HELD; p++) {
      Words4 words{{0, 0, 0, 0}};
      int sum = 0;
      UNROLL
      for (int i = 0; i < ELEMENTS; i++) {
        const int quant = q8_quant(values[p * ELEMENTS + i], by);
        sum += quant;
        words.w[i / 4] |= static_cast<uint32_t>(quant & 255) << (8 * (i % 4));
      }
      row.pieces[piece + p] = words;
      row.sums[piece + p] = sum;
    }
    if (piece % 2 == 0) row.scales[piece / 2] = by.scale;
  }
  block_sync();
}

// Products of one row by a block: y[n] = sum_k weight[n][k] * norm(x)[k], and bias[n] added where there is one. In LDS
// the lanes' sums, BLOCK_ROWS * LANE_STRIDE, and the row.
template <class F, class Lanes, class Row>
DEVICE void multiply_normed(int block, const uint8_t* weight, const NormInput& input, const float* bias, float* y,
                            int out, int blocks, Lanes lanes, const Row& row) {
  const int first = block * BLOCK_ROWS;
  const uint8_t* rows[ROWS_ALONE];
  rows_from<F>(rows, weight, first + wave_id() * ROWS_ALONE, out, blocks);
  const auto begun = load_first<F>(rows, blocks);
  wait_for_inputs();
  normalize_row(row, input, blocks);
  multiply_rows<F, 1>(first, begun, weight, row, out, blocks, lanes);
  for (int i = thread_id(); i < BLOCK_ROWS; i += BLOCK) {
    if (first + i >= out) continue;
    const float sum = sum_in_order(lanes, i);
    y[first + i] = bias ? sum + bias[first + i] : sum;
  }
}

}  // namespace forge
