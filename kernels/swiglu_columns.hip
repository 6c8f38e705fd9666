// swiglu_columns: swiglu, in the columns that Hopper's matrix units take
#include "forge/contract.h"
#include "forge/to_columns.h"

namespace {
using namespace forge;

constexpr int PART = forge::COLUMNS_PART;

// Grid: x = ceil(ffn / PART), y = rows.
template <class T>
DEVICE void swiglu_columns(Dim3 block, const float* __restrict gate_up, T* __restrict y, int32_t* __restrict saturated,
                           int ffn, int y_rows) {
  const float* gate = gate_up + static_cast<size_t>(block.y) * 2 * ffn;
  const int first = block.x * PART;
  store_columns(y, block.y, y_rows, ffn, first, min_of(ffn, first + PART), saturated,
                [&](int i) { return silu(gate[i]) * gate[ffn + i]; });
}
}  // namespace

KERNEL(swiglu_columns_f16, const float* __restrict gate_up,  // [rows, 2, ffn]
       forge::half_t* __restrict y,                          // [chunks, y_rows, CHUNK]
       int32_t* __restrict saturated,                        // [1]
       int ffn, int y_rows) {
  swiglu_columns(BLOCK_INDEX, gate_up, y, saturated, ffn, y_rows);
}

KERNEL(swiglu_columns_bf16, const float* __restrict gate_up, forge::bfloat_t* __restrict y,
       int32_t* __restrict saturated, int ffn, int y_rows) {
  swiglu_columns(BLOCK_INDEX, gate_up, y, saturated, ffn, y_rows);
}
