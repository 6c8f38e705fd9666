// causal_conv: y = silu(bias + sum_j weight[j] * x[t - taps + 1 + j]), each channel by itself
//
// Rows before a slice are those that the one before it kept.
#include "forge/contract.h"
#include "forge/delta.h"

// Grid: x = ceil(channels / CAUSAL_CONV_PART), y = rows.
KERNEL(causal_conv, const float* __restrict x,  // [rows, channels], x_stride apart
       const float* __restrict weight,          // [channels, taps]
       const float* __restrict bias,            // [channels]
       float* __restrict kept,                  // [states, taps - 1, channels]: rows before a slice, in order
       const int32_t* __restrict row_slice,     // [rows]
       const int32_t* __restrict slices,        // [slices, SLICE_WORDS]
       float* __restrict y,                     // [rows, channels]
       int channels, int taps, int x_stride) {
  using namespace forge;
  const int row = BLOCK_INDEX.y, first = BLOCK_INDEX.x * CAUSAL_CONV_PART, before = taps - 1;
  const int end = min_of(channels, first + CAUSAL_CONV_PART);
  const StateSlice slice = state_slice(slices, row_slice[row]);
  const float* old = kept + static_cast<size_t>(max_of(slice.source, 0)) * before * channels;
  // Row `place` of the slice, counted from its first; before it, one that was kept. Absent ones are zero.
  const auto at = [&](int place, int i) {
    if (place >= 0) return x[static_cast<size_t>(slice.first + place) * x_stride + i];
    return slice.source == NO_STATE ? 0.0f : old[static_cast<size_t>(before + place) * channels + i];
  };

  const int here = row - slice.first;
  float* out = y + static_cast<size_t>(row) * channels;
  for (int i = first + thread_id(); i < end; i += BLOCK) {
    float sum = bias[i];
    for (int j = 0; j < taps; j++)
      sum = multiply_add(at(here - before + j, i), weight[static_cast<size_t>(i) * taps + j], sum);
    out[i] = silu(sum);
  }

  if (here != slice.rows - 1) return;
  float* next = kept + static_cast<size_t>(slice.target) * before * channels;
  for (int j = 0; j < before; j++) {
    for (int i = first + thread_id(); i < end; i += BLOCK)
      next[static_cast<size_t>(j) * channels + i] = at(slice.rows - before + j, i);
  }
}
