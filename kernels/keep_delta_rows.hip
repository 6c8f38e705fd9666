// keep_delta_rows: replay[index[i, 1]] = inputs of row index[i, 0] of a gated delta net
//
// Rows with draft tokens: the next slice of their slot replays those that are accepted; see forge/delta.h.
#include "forge/delta.h"

// Grid: x = ceil(2 * (channels + value_heads) / REPLAY_PART), y = kept. channels = (2 * key_heads + value_heads) * dim.
KERNEL(keep_delta_rows, const float* __restrict x,  // [rows, channels], x_stride apart: what the convolution takes
       const float* __restrict qkv,                 // [rows, channels]
       const float* __restrict beta,                // [rows, value_heads], x_stride apart
       const float* __restrict alpha,               // the same
       const int32_t* __restrict index,             // [kept, 2]: a row, and its replay row; each of those once
       float* __restrict replay,                    // [replay_rows, 2 * (channels + value_heads)]
       int key_heads, int value_heads, int dim, int x_stride) {
  using namespace forge;
  const int channels = (2 * key_heads + value_heads) * dim, columns = delta_replay_columns(channels, value_heads);
  const size_t row = index[2 * BLOCK_INDEX.y], to = index[2 * BLOCK_INDEX.y + 1];
  const int first = BLOCK_INDEX.x * REPLAY_PART, end = min_of(columns, first + REPLAY_PART);
  const size_t far = row * x_stride;
  for (int i = first + thread_id(); i < end; i += BLOCK) {
    const int gate = i - 2 * channels;
    float value;
    if (i < channels)
      value = x[far + i];
    else if (gate < 0)
      value = qkv[row * channels + (i - channels)];
    else if (gate < value_heads)
      value = beta[far + gate];
    else
      value = alpha[far + (gate - value_heads)];
    replay[to * columns + i] = value;
  }
}
