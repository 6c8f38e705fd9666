// argmax: index[r] = the column of the row's largest element
//
// Equal elements: the lower column. NaN is never chosen; a row of nothing else gives 0.
#include "forge/reduce.h"

// One block a row.
KERNEL(argmax, const float* __restrict x,  // [rows, columns]
       int32_t* __restrict index,          // [rows]
       int columns) {
  using namespace forge;
  const float* in = x + static_cast<size_t>(BLOCK_INDEX.x) * columns;
  Indexed best{-__builtin_inff(), 0};
  for (int i = thread_id(); i < columns; i += BLOCK) best = better_of(best, Indexed{in[i], i});
  best = block_argmax(best);
  if (thread_id() == 0) index[BLOCK_INDEX.x] = best.index;
}
