// gated_norm: x / sqrt(mean(x²) + eps) * weight * silu(gate), for each head by itself, in place
//
// A wave owns a head.
#include "forge/head_norm.h"

// Grid: x = ceil(heads / WAVES), y = rows.
KERNEL(gated_norm, float* __restrict x,  // [rows, heads, dim]
       const float* __restrict gate,     // [rows, heads * dim], gate_stride apart
       const float* __restrict weight,   // [dim]
       int heads, int dim, int gate_stride, float eps) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const int head = block.x * WAVES + wave_id();
  if (head >= heads) return;
  float* of_head = x + (static_cast<size_t>(block.y) * heads + head) * dim;
  const float* gates = gate + static_cast<size_t>(block.y) * gate_stride + head * dim;
  const float scale = head_scale(of_head, dim, eps);
  SIMD
  for (int i = lane_id(); i < dim; i += WAVE) of_head[i] = of_head[i] * scale * weight[i] * silu(gates[i]);
}
