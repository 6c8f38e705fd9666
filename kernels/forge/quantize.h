// Quantizes activations to the blocks of q8.h: quant = round(x * (127 / largest)), ties to even; scale = largest / 127.
// A block of numbers too small to divide by becomes 0; one with an infinity or NaN keeps it in its scale, so that it
// shows in every product.
#pragma once

#include "q8.h"
#include "words.h"

namespace forge {

// Lanes that share a block, and the neighbouring elements that each of them holds.
constexpr int Q8_LANES = WAVE < 8 ? 1 : 8, Q8_HELD = Q8_BLOCK / Q8_LANES;

DEVICE uint32_t magnitude_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits & 0x7fffffffu;
}

// The largest magnitude of a block of which this lane holds `values`.
DEVICE float largest_of_block(const float (&values)[Q8_HELD]) {
  // Compared as whole numbers: NaN is then the largest of all, and no order can lose it.
  uint32_t bits = 0;
  for (int i = 0; i < Q8_HELD; i++) bits = max_of(bits, magnitude_bits(values[i]));
  UNROLL
  for (int offset = Q8_LANES / 2; offset > 0; offset >>= 1) {
    bits = max_of(bits, static_cast<uint32_t>(shuffle_xor(static_cast<int>(bits), offset)));
  }
  float largest;
  __builtin_memcpy(&largest, &bits, 4);
  return largest;
}

// Quantization factors from a block's largest magnitude.
struct Q8Scale {
  float scale, inverse;
  bool is_finite;
};
DEVICE Q8Scale q8_scale(float largest) {
  const bool is_finite = magnitude_bits(largest) < 0x7f800000u, is_tiny = largest < 1e-36f;
  return {is_tiny ? 0.0f : largest / 127.0f, is_finite && !is_tiny ? 127.0f / largest : 0.0f, is_finite};
}
DEVICE int q8_quant(float value, const Q8Scale& by) {
  return by.is_finite ? static_cast<int>(__builtin_rintf(value * by.inverse)) : 0;
}

// Quantizes block b of a row of `in` elements, of which this lane holds `values`; lanes that are not to store take part
// in the shuffles all the same.
DEVICE void quantize_block(const float (&values)[Q8_HELD], uint8_t* row, int in, int b, bool stores) {
  constexpr int HALVES = Q8_LANES == 1 ? 2 : 1;  // of sixteen elements, that a lane holds or shares in
  const Q8Scale by = q8_scale(largest_of_block(values));
  const int lane = thread_id() % Q8_LANES;
  auto* quants = reinterpret_cast<int8_t*>(row) + static_cast<size_t>(b) * Q8_BLOCK + lane * Q8_HELD;
  auto* scales = reinterpret_cast<float*>(row + in);
  auto* sums = reinterpret_cast<int16_t*>(row + in + in / 8);
  int wide[Q8_HELD];
  for (int i = 0; i < Q8_HELD; i++) wide[i] = q8_quant(values[i], by);
  alignas(4) int8_t stored[Q8_HELD];
  for (int i = 0; i < Q8_HELD; i++) stored[i] = static_cast<int8_t>(wide[i]);
  if (stores) __builtin_memcpy(quants, stored, Q8_HELD);
  UNROLL
  for (int half = 0; half < HALVES; half++) {
    constexpr int COUNT = Q8_HELD / HALVES;
    int sum = 0;
    for (int i = 0; i < COUNT; i++) sum += wide[half * COUNT + i];
    UNROLL
    for (int offset = Q8_LANES / 4; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
    if (stores && lane % (Q8_LANES / 2 + (Q8_LANES == 1)) == 0) {
      sums[2 * b + half + (lane >= Q8_LANES / 2 && Q8_LANES > 1)] = static_cast<int16_t>(sum);
    }
  }
  if (stores && lane == 0) scales[b] = by.scale;
}

// Quantizes the elements first .. end - 1 of a row, whole blocks, of which `bring(values, i)` gives i .. i + Q8_HELD -
// 1: all threads of a block together.
template <class Bring>
DEVICE void quantize_row(uint8_t* row, int in, int first, int end, Bring bring) {
  const int last = end / Q8_BLOCK - 1;
  for (int at = first / Q8_BLOCK; at <= last; at += BLOCK / Q8_LANES) {
    const int mine = at + thread_id() / Q8_LANES;
    // Every lane takes part in the shuffles; those past the end repeat the last block and store nothing.
    const int b = min_of(mine, last);
    float values[Q8_HELD];
    bring(values, b * Q8_BLOCK + thread_id() % Q8_LANES * Q8_HELD);
    quantize_block(values, row, in, b, mine <= last);
  }
}

// Elements that a lane holds from p on, at 16 bytes.
DEVICE void load_held(float (&values)[Q8_HELD], const float* p) {
  struct alignas(16) Held {
    float values[Q8_HELD];
  };
  const auto& held = *reinterpret_cast<const Held*>(p);
  for (int i = 0; i < Q8_HELD; i++) values[i] = held.values[i];
}

}  // namespace forge
