// router_scores: y[t][e] = sum_k weight[e][k] * x[t][k]: matmul_f32 of a router, which has few rows
//
// For GPUs: a wave a row and expert, so that many of them run at once, and what a lane reads is on its way in runs.
#include "forge/device.h"

// Grid: x = ceil(experts / WAVES), y = rows.
KERNEL(router_scores, const float* __restrict weight,  // [experts, in]
       const float* __restrict x,                      // [rows, in]
       float* __restrict y,                            // [rows, experts]
       int experts, int in) {
  using namespace forge;
  constexpr int AHEAD = 8;
  const int row = BLOCK_INDEX.y, expert = BLOCK_INDEX.x * WAVES + wave_id();
  if (expert >= experts) return;
  const float* w = weight + static_cast<size_t>(expert) * in;
  const float* source = x + static_cast<size_t>(row) * in;
  float sum = 0.0f;
  int i = lane_id();
  for (; i + (AHEAD - 1) * WAVE < in; i += AHEAD * WAVE) {
    float left[AHEAD], right[AHEAD];
    UNROLL
    for (int j = 0; j < AHEAD; j++) {
      left[j] = w[i + j * WAVE];
      right[j] = source[i + j * WAVE];
    }
    UNROLL
    for (int j = 0; j < AHEAD; j++) sum = multiply_add(left[j], right[j], sum);
  }
  for (; i < in; i += WAVE) sum = multiply_add(w[i], source[i], sum);
  sum = wave_sum(sum);
  if (lane_id() == 0) y[static_cast<size_t>(row) * experts + expert] = sum;
}
