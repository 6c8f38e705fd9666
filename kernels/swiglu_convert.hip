// swiglu_convert: swiglu, stored as 16-bit floats
#include "forge/contract.h"
#include "forge/convert.h"

namespace {
using namespace forge;

constexpr int PART = forge::SWIGLU_PART;

// Grid: x = ceil(ffn / PART), y = rows.
template <class T>
DEVICE void swiglu_convert(Dim3 block, const float* __restrict gate_up, T* __restrict y, int ffn) {
  const float* gate = gate_up + static_cast<size_t>(block.y) * 2 * ffn;
  const int first = block.x * PART;
  convert_row(y + static_cast<size_t>(block.y) * ffn, ffn, first, min_of(ffn, first + PART),
              [&](int i) { return silu(gate[i]) * gate[ffn + i]; });
}
}  // namespace

KERNEL(swiglu_convert_f16, const float* __restrict gate_up,  // [rows, 2, ffn]
       forge::half_t* __restrict y,                          // [rows, ffn]
       int ffn) {
  swiglu_convert(BLOCK_INDEX, gate_up, y, ffn);
}

KERNEL(swiglu_convert_bf16, const float* __restrict gate_up, forge::bfloat_t* __restrict y, int ffn) {
  swiglu_convert(BLOCK_INDEX, gate_up, y, ffn);
}
