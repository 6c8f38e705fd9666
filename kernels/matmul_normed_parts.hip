// matmul_normed_parts: y = weights · norm(x), with a bias, of one row and up to three weights of types of their own
//
// A matmul_normed of each weight and bias_add in one launch, to the bit: q, k and v, which files quantize by different
// types. The blocks of a weight are those of matmul_normed.
#include "forge/normed.h"

namespace {
using namespace forge;

// Types, in the order of PACKED_TYPES.
enum PackedType {
#define PACKED_TYPE(type, Name) PACKED_##Name,
  FORGE_PACKED_FORMATS(PACKED_TYPE)
};

struct Part {
  const uint8_t* weight;
  int out, type;
};
}  // namespace

// Grid: x = (out_0 + out_1 + out_2) / BLOCK_ROWS, of which each is a multiple.
KERNEL_RESIDENT(4, matmul_normed_parts, const uint8_t* __restrict weight_0,  // [out_0, packed_row_bytes]
                const uint8_t* __restrict weight_1, const uint8_t* __restrict weight_2,
                const float* __restrict x,      // [in]
                const float* __restrict norm,   // [in]
                const float* __restrict parts,  // [in / NORM_PART], see norm.h
                const float* __restrict bias,   // [out_0 + out_1 + out_2], where biased is 1
                float* __restrict y,            // [out_0 + out_1 + out_2]
                int out_0, int out_1, int out_2, int type_0, int type_1, int type_2, int blocks, int biased,
                float eps) {
  SHARED(float, lanes, (BLOCK_ROWS * LANE_STRIDE));
  NORMED_ROW(row);
  const int first = BLOCK_INDEX_AHEAD.x * BLOCK_ROWS;
  const bool is_first = first < out_0, is_last = first >= out_0 + out_1;
  const Part part = is_first  ? Part{weight_0, out_0, type_0}
                    : is_last ? Part{weight_2, out_2, type_2}
                              : Part{weight_1, out_1, type_1};
  const int before = is_first ? 0 : is_last ? out_0 + out_1 : out_0;
  const float* own_bias = biased ? bias + before : nullptr;
  switch (part.type) {
#define MULTIPLY(type, Name)                                                                                  \
  case PACKED_##Name:                                                                                         \
    multiply_normed<Packed##Name>((first - before) / BLOCK_ROWS, part.weight, NormInput{x, norm, parts, eps}, \
                                  own_bias, y + before, part.out, blocks, lanes + 0, row);                    \
    break;
    FORGE_PACKED_FORMATS(MULTIPLY)
  }
}
