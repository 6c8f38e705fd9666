// convert: y = x in 16 bits, rounded to nearest, ties to even
//
// Activations for kernels that take them in the type of their weights. Beyond f16's range they become infinite.
#include "forge/device.h"

namespace {
using namespace forge;

// Grid: x = rows.
template <class T>
DEVICE void convert(Dim3 block, const float* __restrict x, T* __restrict y, int in) {
  const size_t row = static_cast<size_t>(block.x) * in;
  for (int i = thread_id(); i < in; i += BLOCK) store(y + row + i, x[row + i]);
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
