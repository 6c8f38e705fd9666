// attention_combine_convert: attention_combine, stored as 16-bit floats
#include "forge/attention_combine.h"

namespace forge {
template <class T>
struct AttendedHalves {
  T* out;
};
// Averages of values that f16 holds are in its range.
template <class T>
DEVICE void store_attended(const AttendedHalves<T>& halves, int row, int columns, int element, float value) {
  store(halves.out + static_cast<size_t>(row) * columns + element, value);
}
}  // namespace forge

// Grid: x = heads / COMBINE_HEADS, y = tokens, z = splits / COMBINE_SPLITS, at most COMBINE_BLOCKS.
KERNEL(attention_combine_convert_f16, const float* __restrict parts,  // [tokens, heads, splits, 2 + head_dim]
       const float* __restrict sinks,                                 // [heads]
       forge::half_t* __restrict out,                                 // [tokens, heads, head_dim]
       const int32_t* __restrict row_position,                        // [tokens]
       int heads, int head_dim, int splits, int window) {
  const forge::AttendedHalves<forge::half_t> halves{out};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, halves, row_position, heads, head_dim, splits, window);
}

KERNEL(attention_combine_convert_bf16, const float* __restrict parts, const float* __restrict sinks,
       forge::bfloat_t* __restrict out, const int32_t* __restrict row_position, int heads, int head_dim, int splits,
       int window) {
  const forge::AttendedHalves<forge::bfloat_t> halves{out};
  forge::attention_combine(BLOCK_INDEX, parts, sinks, halves, row_position, heads, head_dim, splits, window);
}
