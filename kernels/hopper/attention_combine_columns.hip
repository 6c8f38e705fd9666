// attention_combine_columns: attention_combine, in the columns that Hopper's matrix units take
#include "forge/attention_combine.h"
#include "forge/hopper/attended_columns.h"

// Grid: x = heads / COMBINE_HEADS, y = tokens, z = splits / COMBINE_SPLITS, at most COMBINE_BLOCKS.
// Three blocks of a multiprocessor: with two, 64 rows took a quarter longer on an H200; with four, deep contexts did.
KERNEL_RESIDENT(3, attention_combine_columns_f16,
                const float* __restrict parts,           // [tokens, heads, splits, 2 + head_dim]
                const float* __restrict sinks,           // [heads]
                forge::half_t* __restrict out,           // [chunks, out_rows, CHUNK]
                const int32_t* __restrict row_position,  // [tokens]
                int heads, int head_dim, int splits, int window, int out_rows) {
  const forge::AttendedColumnTiles<forge::half_t> columns{out, out_rows};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, columns, row_position, heads, head_dim, splits, window);
}

KERNEL_RESIDENT(3, attention_combine_columns_bf16, const float* __restrict parts, const float* __restrict sinks,
                forge::bfloat_t* __restrict out, const int32_t* __restrict row_position, int heads, int head_dim,
                int splits, int window, int out_rows) {
  const forge::AttendedColumnTiles<forge::bfloat_t> columns{out, out_rows};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, columns, row_position, heads, head_dim, splits, window);
}
