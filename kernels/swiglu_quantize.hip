// swiglu_quantize: swiglu, then quantize_q8, in one launch
#include "forge/quantize.h"

namespace {
constexpr int PART = forge::SWIGLU_PART;
}

// Grid: x = ceil(ffn / PART), y = rows.
KERNEL(swiglu_quantize, const float* __restrict gate_up,  // [rows, 2, ffn]
       uint8_t* __restrict y,                             // [rows, ffn / 32, 40], see q8.h
       int ffn) {
  using namespace forge;
  const size_t row = BLOCK_INDEX.y;
  const float* gate = gate_up + row * 2 * ffn;
  const int first = BLOCK_INDEX.x * PART;
  quantize_row(y + row * q8_row_bytes(ffn), ffn, first, min_of(ffn, first + PART), [&](float(&values)[Q8_HELD], int i) {
    float up[Q8_HELD];
    load_held(values, gate + i);
    load_held(up, gate + ffn + i);
    for (int j = 0; j < Q8_HELD; j++) values[j] = silu(values[j]) * up[j];
  });
}
