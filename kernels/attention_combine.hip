// attention_combine: folds what attention_split left of each row, split by split, in order
#include "forge/attention.h"

// Grid: x = heads, y = tokens. A thread owns elements of the head.
KERNEL(attention_combine, const float* __restrict parts,  // [tokens, heads, splits, 2 + head_dim]
       float* __restrict out,                             // [tokens, heads, head_dim]
       const int32_t* __restrict row_position,            // [tokens]
       int heads, int head_dim, int splits) {
  using namespace forge;
  const int row = BLOCK_INDEX.y, used = row_position[row] / SPLIT + 1;
  const size_t place = static_cast<size_t>(row) * heads + BLOCK_INDEX.x;
  const float* first = parts + place * splits * (head_dim + 2);
  for (int i = thread_id(); i < head_dim; i += BLOCK) {
    Partial<1> total;
    clear(total);
    for (int s = 0; s < used; s++) {
      const float* part = first + static_cast<size_t>(s) * (head_dim + 2);
      fold(total, Partial<1>{part[0], part[1], {part[2 + i]}});
    }
    out[place * head_dim + i] = total.values[0] * inverse_of(total.sum);
  }
}
