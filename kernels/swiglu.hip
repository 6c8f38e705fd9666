// swiglu: y = silu(gate) * up, silu(v) = v / (1 + e^-v)
//
// Shazeer, "GLU Variants Improve Transformer" (2020). The activation is on the gate.
#include "forge/device.h"

namespace {
using namespace forge;

// One block a row. gate and up are the two halves of one row of gate_up.
template <class T>
DEVICE void activate(int row, const T* __restrict gate_up, T* __restrict y, int ffn) {
  const T* gate = gate_up + static_cast<size_t>(row) * 2 * ffn;
  const T* up = gate + ffn;
  T* out = y + static_cast<size_t>(row) * ffn;
  SIMD
  for (int i = thread_id(); i < ffn; i += BLOCK) store(out + i, silu(to_float(gate[i])) * to_float(up[i]));
}
}  // namespace

KERNEL(swiglu, const float* __restrict gate_up,  // [rows, 2, ffn]
       float* __restrict y,                      // [rows, ffn]
       int ffn) {
  activate(BLOCK_INDEX.x, gate_up, y, ffn);
}

KERNEL(swiglu_f16, const forge::half_t* __restrict gate_up, forge::half_t* __restrict y, int ffn) {
  activate(BLOCK_INDEX.x, gate_up, y, ffn);
}
