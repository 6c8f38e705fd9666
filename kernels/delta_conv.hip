// delta_conv: q, k and v of a gated delta net: y = silu(sum_j weight[j] * x[t - 3 + j]), q and k then divided by their
// length
//
// Rows before a slice are those that the one before it kept, and replay rows after them. A wave owns a head of a row.
#include "forge/delta.h"

// Grid: x = ceil((2 * key_heads + value_heads) / WAVES), y = rows.
KERNEL(delta_conv, const float* __restrict x,  // [rows, channels], x_stride apart
       const float* __restrict weight,         // [channels, DELTA_TAPS]
       float* __restrict kept,                 // [states, DELTA_TAPS - 1, channels]: rows before a slice, in order
       const float* __restrict replay,         // [replay_rows, delta_replay_columns]
       const int32_t* __restrict row_slice,    // [rows]
       const int32_t* __restrict slices,       // [slices, SLICE_WORDS]
       float* __restrict y,                    // [rows, channels]
       int key_heads, int value_heads, int dim, int x_stride, float eps) {
  using namespace forge;
  constexpr int BEFORE = DELTA_TAPS - 1;
  const int row = BLOCK_INDEX.y, head = BLOCK_INDEX.x * WAVES + wave_id();
  if (head >= 2 * key_heads + value_heads) return;
  const StateSlice slice = state_slice(slices, row_slice[row]);
  const int channels = (2 * key_heads + value_heads) * dim, channel = head * dim;
  // A row of the slice, counted from its first; before it a replay row, and before those one that was kept. Absent ones
  // are zero.
  const float* old = kept + static_cast<size_t>(max_of(slice.source, 0)) * BEFORE * channels + channel;
  const int columns = delta_replay_columns(channels, value_heads);
  const auto is_there = [&](int place) { return place >= 0 || slice.source != NO_STATE; };
  const auto at = [&](int place) {
    if (place >= 0) return x + static_cast<size_t>(slice.first + place) * x_stride + channel;
    const int back = place + slice.replayed;
    return back >= 0 ? replay + static_cast<size_t>(slice.replay_row + back) * columns + channel
                     : old + static_cast<size_t>(BEFORE + back) * channels;
  };

  const float* taps[DELTA_TAPS];
  bool has[DELTA_TAPS];
  UNROLL
  for (int j = 0; j < DELTA_TAPS; j++) {
    const int place = row - slice.first - BEFORE + j;
    has[j] = is_there(place);
    taps[j] = at(place);
  }
  float* out = y + static_cast<size_t>(row) * channels + channel;
  const float* w = weight + static_cast<size_t>(channel) * DELTA_TAPS;
  float squares = 0.0f;
  SIMD_SUM(squares)
  for (int i = lane_id(); i < dim; i += WAVE) {
    float sum = 0.0f;
    UNROLL
    for (int j = 0; j < DELTA_TAPS; j++) sum += (has[j] ? taps[j][i] : 0.0f) * w[i * DELTA_TAPS + j];
    const float value = silu(sum);
    out[i] = value;
    squares += value * value;
  }
  if (head < 2 * key_heads) {
    const float scale = 1.0f / max_of(sqrt_of(wave_sum(squares)), eps);
    SIMD
    for (int i = lane_id(); i < dim; i += WAVE) out[i] *= scale;
  }

  if (row != slice.first + slice.rows - 1 || slice.target == NO_STATE) return;
  float* kept_next = kept + static_cast<size_t>(slice.target) * BEFORE * channels + channel;
  for (int j = 0; j < BEFORE; j++) {
    const int place = slice.stored - BEFORE + j;
    const bool is_present = is_there(place);
    const float* from = at(place);
    SIMD
    for (int i = lane_id(); i < dim; i += WAVE)
      kept_next[static_cast<size_t>(j) * channels + i] = is_present ? from[i] : 0.0f;
  }
}
