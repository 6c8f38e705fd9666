// sparse_geglu: y = gelu(max(gate - cutoff, 0)) * up, cutoff = mean(gate) + deviations * deviation(gate) of the row
//
// A fixed share of normally distributed gates is above the cutoff: statistical top-k, You et al., "Spark Transformer"
// (2025), in the form of Gemma 3n.
#include "forge/reduce.h"

// One block a row.
KERNEL(sparse_geglu, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                            // [rows, ffn]
       int ffn, float deviations) {
  using namespace forge;
  const int row = BLOCK_INDEX.x;
  const float* gate = gate_up + static_cast<size_t>(row) * 2 * ffn;
  const float* up = gate + ffn;
  float* out = y + static_cast<size_t>(row) * ffn;
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < ffn; i += BLOCK) sum += gate[i];
  const float mean = block_sum(sum) / static_cast<float>(ffn);
  float squares = 0.0f;
  SIMD_SUM(squares)
  for (int i = thread_id(); i < ffn; i += BLOCK) squares += (gate[i] - mean) * (gate[i] - mean);
  const float variance = block_sum(squares) / static_cast<float>(ffn - 1);
  const float cutoff = mean + sqrt_of(variance) * deviations;
  SIMD
  for (int i = thread_id(); i < ffn; i += BLOCK) {
    const float above = gate[i] - cutoff;
    // A NaN stays one.
    out[i] = gelu(above < 0.0f ? 0.0f : above) * up[i];
  }
}
