// swiglu: y = silu(gate) * up, silu(v) = v / (1 + e^-v)
//
// Shazeer, "GLU Variants Improve Transformer" (2020). The activation is on the gate.
#include "forge/device.h"

// One block a row. gate and up are the two halves of one row of gate_up.
KERNEL(swiglu, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                      // [rows, ffn]
       int ffn) {
  using namespace forge;
  const float* gate = gate_up + static_cast<size_t>(BLOCK_INDEX.x) * 2 * ffn;
  const float* up = gate + ffn;
  float* out = y + static_cast<size_t>(BLOCK_INDEX.x) * ffn;
  SIMD
  for (int i = thread_id(); i < ffn; i += BLOCK) out[i] = gate[i] / (1.0f + exp_of(-gate[i])) * up[i];
}
