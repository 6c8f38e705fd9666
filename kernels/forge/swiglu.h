// SwiGLU and GEGLU: Shazeer, "GLU Variants Improve Transformer" (2020). The activation is on the gate.
#pragma once

#include "contract.h"
#include "device.h"

namespace forge {

// Calls `element(gate, up)` for SWIGLU_PART elements of a row and stores what it returns. gate and up are the two
// halves of one row of gate_up. Grid: x = rows, y = ceil(ffn / SWIGLU_PART).
template <class T, class Element>
DEVICE void activate(Dim3 block, const T* __restrict gate_up, T* __restrict y, int ffn, Element element) {
  const T* gate = gate_up + static_cast<size_t>(block.x) * 2 * ffn;
  const T* up = gate + ffn;
  T* out = y + static_cast<size_t>(block.x) * ffn;
  const int first = block.y * SWIGLU_PART, end = min_of(ffn, first + SWIGLU_PART);
  SIMD
  for (int i = first + thread_id(); i < end; i += BLOCK) store(out + i, element(to_float(gate[i]), to_float(up[i])));
}

// So et al., "Primer" (2021). A NaN stays one.
DEVICE float relu_squared(float value) {
  value = value < 0.0f ? 0.0f : value;
  return value * value;
}

// gpt-oss's: the gate at most `limit`, up from -limit to limit. A NaN stays one.
DEVICE float swiglu_clamped(float gate, float up, float alpha, float limit) {
  gate = gate > limit ? limit : gate;
  up = up > limit ? limit : up < -limit ? -limit : up;
  return gate / (1.0f + exp_of(-alpha * gate)) * (up + 1.0f);
}

}  // namespace forge
