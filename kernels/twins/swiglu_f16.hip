// swiglu_f16: swiglu of rows in f16
#include "forge/swiglu.h"

KERNEL(swiglu_f16, const forge::half_t* __restrict gate_up, forge::half_t* __restrict y, int ffn) {
  forge::activate(BLOCK_INDEX, gate_up, y, ffn, [](float gate, float up) { return forge::silu(gate) * up; });
}
