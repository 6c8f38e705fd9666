// swiglu_clamped: y = gate / (1 + e^(-alpha * gate)) * (up + 1), the gate at most `limit` and up from -limit to limit
#include "forge/swiglu.h"

KERNEL(swiglu_clamped, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                              // [rows, ffn]
       int ffn, float alpha, float limit) {
  forge::activate(BLOCK_INDEX, gate_up, y, ffn,
                  [&](float gate, float up) { return forge::swiglu_clamped(gate, up, alpha, limit); });
}
