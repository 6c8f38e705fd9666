// layer_norm: y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias, for each row; Ba, Kiros & Hinton
// (2016)
//
// A row's sums are taken in an order that depends on its length alone.
#include "forge/reduce.h"

// One block a row.
KERNEL(layer_norm, const float* x,      // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       const float* __restrict bias,    // [hidden]
       float* y,                        // [rows, hidden]; may be x
       int hidden, float eps) {
  using namespace forge;
  const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  const float* in = x + row;
  float* out = y + row;
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) sum += in[i];
  const float mean = block_sum(sum) / static_cast<float>(hidden);
  float squares = 0.0f;
  SIMD_SUM(squares)
  for (int i = thread_id(); i < hidden; i += BLOCK) squares += (in[i] - mean) * (in[i] - mean);
  const float scale = rsqrt_of(block_sum(squares) / static_cast<float>(hidden) + eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
}
