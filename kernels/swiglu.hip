// swiglu: y = silu(gate) * up, silu(v) = v / (1 + e^-v)
#include "forge/swiglu.h"

KERNEL(swiglu, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                      // [rows, ffn]
       int ffn) {
  forge::activate(BLOCK_INDEX, gate_up, y, ffn, [](float gate, float up) { return forge::silu(gate) * up; });
}
