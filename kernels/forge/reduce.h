// Reductions over the threads of a block: within each wave by shuffles, then over the waves in order through shared
// memory. Every thread gets the result. All threads of the block must take part.
#pragma once

#include "device.h"

namespace forge {

DEVICE float block_sum(float value) {
  value = wave_sum(value);
  if (WAVES == 1) return value;
  SHARED(float, parts, WAVES);
  if (lane_id() == 0) parts[wave_id()] = value;
  block_sync();
  float sum = 0.0f;
  UNROLL
  for (int i = 0; i < WAVES; i++) sum += parts[i];
  block_sync();
  return sum;
}

DEVICE float block_max(float value) {
  value = wave_max(value);
  if (WAVES == 1) return value;
  SHARED(float, parts, WAVES);
  if (lane_id() == 0) parts[wave_id()] = value;
  block_sync();
  float best = parts[0];
  UNROLL
  for (int i = 1; i < WAVES; i++) best = max_of<float>(best, parts[i]);
  block_sync();
  return best;
}

// The largest value and where it was seen. Equal values: the lower index wins.
struct Indexed {
  float value;
  int index;
};
DEVICE Indexed better_of(Indexed a, Indexed b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
// Sum over each group of `COUNT` lanes, a power of two.
template <int COUNT>
DEVICE Indexed lanes_argmax(Indexed best) {
  UNROLL
  for (int offset = COUNT / 2; offset > 0; offset >>= 1) {
    best = better_of(best, Indexed{shuffle_xor(best.value, offset), shuffle_xor(best.index, offset)});
  }
  return best;
}
DEVICE Indexed block_argmax(Indexed best) {
  best = lanes_argmax<WAVE>(best);
  if (WAVES == 1) return best;
  SHARED(float, values, WAVES);
  SHARED(int, indices, WAVES);
  if (lane_id() == 0) {
    values[wave_id()] = best.value;
    indices[wave_id()] = best.index;
  }
  block_sync();
  // Each lane one, and not each all of them.
  static_assert(WAVES <= WAVE || WAVE == 1, "a lane a wave");
  best = lanes_argmax<WAVES>(Indexed{values[lane_id() % WAVES], indices[lane_id() % WAVES]});
  block_sync();
  return best;
}

}  // namespace forge
