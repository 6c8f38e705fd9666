// geglu: y = gelu(gate) * up, gelu in its form with tanh
#include "forge/swiglu.h"

KERNEL(geglu, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                     // [rows, ffn]
       int ffn) {
  forge::activate(BLOCK_INDEX, gate_up, y, ffn, [](float gate, float up) { return forge::gelu(gate) * up; });
}
