// Activations as matmul_quantized takes them: int8 in blocks of 32 with an f32 scale each. A row of `in` elements is
// three planes, one after the other:
//
//   int8  quants[in]        round(x / scale)
//   f32   scales[in / 32]   largest |x| of the block / 127
//   int16 sums[in / 16]     of sixteen quants, for weights with a zero point or a minimum
//
// A row depends on its own elements alone. quantize_q8.hip writes it.
#pragma once

#include "contract.h"
#include "device.h"

namespace forge {

DEVICE size_t q8_row_bytes(int in) { return static_cast<size_t>(in / Q8_BLOCK) * Q8_BLOCK_BYTES; }

struct Q8Input {
  const int8_t* quants;
  const float* scales;
  const int16_t* sums;
};
DEVICE Q8Input q8_input(const uint8_t* rows, int row, int in) {
  const uint8_t* base = rows + static_cast<size_t>(row) * q8_row_bytes(in);
  return {reinterpret_cast<const int8_t*>(base), reinterpret_cast<const float*>(base + in),
          reinterpret_cast<const int16_t*>(base + in + in / 8)};
}

}  // namespace forge
