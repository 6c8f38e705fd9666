// quantize_q8: each 32 elements of a row become int8 with a scale: quant = round(x * (127 / largest)), scale = largest
// / 127
//
// A row depends on its own elements alone.
#include "forge/quantize.h"

namespace {
constexpr int PART = forge::QUANTIZE_PART;
}

// Grid: x = rows, of which latent attention has one for each head, and y = ceil(in / PART).
KERNEL(quantize_q8, const float* __restrict x,  // [rows, in]
       uint8_t* __restrict y,                   // [rows, in / 32, 40], see q8.h
       int in) {
  using namespace forge;
  const size_t row = BLOCK_INDEX.x;
  const float* source = x + row * in;
  const int first = BLOCK_INDEX.y * PART;
  quantize_row(y + row * q8_row_bytes(in), in, first, min_of(in, first + PART),
               [&](float(&values)[Q8_HELD], int i) { load_held(values, source + i); });
}
