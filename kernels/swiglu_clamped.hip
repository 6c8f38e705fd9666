// swiglu_clamped: y = gate / (1 + e^(-alpha * gate)) * (up + 1), the gate at most `limit` and up from -limit to limit
#include "forge/swiglu.h"

// One block a row.
KERNEL(swiglu_clamped, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                              // [rows, ffn]
       int ffn, float alpha, float limit) {
  const float* gates = gate_up + static_cast<size_t>(BLOCK_INDEX.x) * 2 * ffn;
  float* out = y + static_cast<size_t>(BLOCK_INDEX.x) * ffn;
  SIMD
  for (int i = forge::thread_id(); i < ffn; i += BLOCK)
    out[i] = forge::swiglu_clamped(gates[i], gates[ffn + i], alpha, limit);
}
