// attention_combine_quantize: attention_combine, then quantize_q8, in one launch
#include "forge/attention_combine.h"
#include "forge/quantize.h"

namespace forge {
// Quantizes the combined output of a block, in whole blocks of q8.h.
struct AttendedQuants {
  float* rows;
  uint8_t* out;
};
DEVICE void store_attended(const AttendedQuants& quants, int row, int columns, int element, float value) {
  quants.rows[static_cast<size_t>(row) * columns + element] = value;
}
DEVICE void finish_attended(const AttendedQuants& quants, int row, int columns, int first, int end) {
  block_sync();
  const float* values = quants.rows + static_cast<size_t>(row) * columns;
  quantize_row(quants.out + row * q8_row_bytes(columns), columns, first, end,
               [&](float(&held)[Q8_HELD], int i) { load_held(held, values + i); });
}
static_assert(COMBINE_WIDTH == BLOCK || COMBINE_WIDTH % Q8_BLOCK == 0,
              "strips are of whole blocks, or an element each");
}  // namespace forge

// Grid: x = heads / COMBINE_HEADS, y = tokens, z = splits / COMBINE_SPLITS, at most COMBINE_BLOCKS.
KERNEL(attention_combine_quantize, const float* __restrict parts,  // [tokens, heads, splits, 2 + head_dim]
       const float* __restrict sinks,                              // [heads]
       float* __restrict rows,                                     // [tokens, heads, head_dim]
       uint8_t* __restrict out,                                    // [tokens, heads * head_dim / 32, 40], see q8.h
       const int32_t* __restrict row_position,                     // [tokens]
       int heads, int head_dim, int splits, int window) {
  const forge::AttendedQuants quants{rows, out};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, quants, row_position, heads, head_dim, splits, window);
}
