// convert: y = x in 16 bits, rounded to nearest, ties to even
//
// Activations for kernels that take them in the type of their weights. Beyond f16's range they become infinite.
#include "forge/contract.h"
#include "forge/convert.h"

namespace {
using namespace forge;

constexpr int PART = forge::CONVERT_PART;

// Grid: x = ceil(in / PART), y = rows.
template <class T>
DEVICE void convert(Dim3 block, const float* __restrict x, T* __restrict y, int in) {
  const size_t row = static_cast<size_t>(block.y) * in;
  const int first = block.x * PART;
  convert_row(y + row, in, first, min_of(in, first + PART), [&](int i) { return x[row + i]; });
}
}  // namespace

KERNEL(convert_f16, const float* __restrict x,  // [rows, in]
       forge::half_t* __restrict y,             // [rows, in]
       int in) {
  convert(BLOCK_INDEX, x, y, in);
}

KERNEL(convert_bf16, const float* __restrict x, forge::bfloat_t* __restrict y, int in) {
  convert(BLOCK_INDEX, x, y, in);
}
