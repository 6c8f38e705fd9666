// attention_combine: combines what attention_split left of each row, split by split, in order
#include "forge/attention_combine.h"

// Grid: x = heads / COMBINE_HEADS, y = tokens, z = splits / COMBINE_SPLITS, at most COMBINE_BLOCKS.
KERNEL(attention_combine, const float* __restrict parts,  // [tokens, heads, splits, 2 + head_dim]
       const float* __restrict sinks,                     // [heads]
       float* __restrict out,                             // [tokens, heads, head_dim]
       const int32_t* __restrict row_position,            // [tokens]
       int heads, int head_dim, int splits, int window) {
  const forge::AttendedRows rows{out};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, rows, row_position, heads, head_dim, splits, window);
}
