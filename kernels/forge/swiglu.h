// SwiGLU and GEGLU: Shazeer, "GLU Variants Improve Transformer" (2020). The activation is on the gate.
#pragma once

#include "device.h"

namespace forge {

// One block a row. gate and up are the two halves of one row of gate_up.
template <class T, class Activation>
DEVICE void activate(int row, const T* __restrict gate_up, T* __restrict y, int ffn, Activation activation) {
  const T* gate = gate_up + static_cast<size_t>(row) * 2 * ffn;
  const T* up = gate + ffn;
  T* out = y + static_cast<size_t>(row) * ffn;
  SIMD
  for (int i = thread_id(); i < ffn; i += BLOCK) store(out + i, activation(to_float(gate[i])) * to_float(up[i]));
}

// gpt-oss's: the gate at most `limit`, up from -limit to limit. A NaN stays one.
DEVICE float swiglu_clamped(float gate, float up, float alpha, float limit) {
  gate = gate > limit ? limit : gate;
  up = up > limit ? limit : up < -limit ? -limit : up;
  return gate / (1.0f + exp_of(-alpha * gate)) * (up + 1.0f);
}

}  // namespace forge
