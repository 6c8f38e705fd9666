// rope: rotates the first heads of each row by the row's position, in place
//
// Pair j is rotated by the angle of table row `position`, column j. Tables are built on the CPU, scaling combined in.
#include "forge/rope.h"

// Grid: x = heads to rotate, y = tokens.
KERNEL(rope, float* __restrict x,               // [tokens, row_heads, head_dim]
       const float* __restrict cosine,          // [max_position, rotary / 2]
       const float* __restrict sine,            // the same
       const int32_t* __restrict row_position,  // [tokens]
       int row_heads, int head_dim, int rotary, int adjacent) {
  using namespace forge;
  const int row = BLOCK_INDEX.y;
  const size_t angles = static_cast<size_t>(row_position[row]) * (rotary / 2);
  float* vector = x + (static_cast<size_t>(row) * row_heads + BLOCK_INDEX.x) * head_dim;
  rotate(vector, vector, cosine + angles, sine + angles, head_dim, rotary, adjacent);
}
