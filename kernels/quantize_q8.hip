// quantize_q8: each 32 elements of a row become int8 with a scale: quant = round(x * (127 / largest)), scale = largest
// / 127
//
// A row depends on its own elements alone.
#include "forge/quantize.h"

// One block a row.
KERNEL(quantize_q8, const float* __restrict x,  // [rows, in]
       uint8_t* __restrict y,                   // [rows, in / 32, 40], see q8.h
       int in) {
  using namespace forge;
  const float* source = x + static_cast<size_t>(BLOCK_INDEX.x) * in;
  quantize_row(y + static_cast<size_t>(BLOCK_INDEX.x) * q8_row_bytes(in), in,
               [&](float (&values)[Q8_HELD], int i) { load_held(values, source + i); });
}
