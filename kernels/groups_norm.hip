// groups_norm: x / sqrt(mean(x²) + eps) * weight, for each group of a row by itself, with weights of its own, in place
//
// A block owns a group, and adds its squares in the order of rms_norm.
#include "forge/norm.h"

namespace {
using namespace forge;

// The weights are asked for before the inputs are there.
template <int PIECES>
DEVICE void norm_held(float* x, const float* weight, int width, float eps) {
  HeldRow<PIECES> weights, own;
  load_held(weights, weight, width);
  wait_for_inputs();
  load_held(own, x, width);
  SHARED(float, squares, NORM_PARTS);
  const float scale = inv_rms_of_held(own, squares + 0, width, eps);
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    Floats4& four = own.pieces[p];
    UNROLL
    for (int k = 0; k < 4; k++) four.f[k] = four.f[k] * scale * weights.pieces[p].f[k];
    if (held_at(p) < width) store_aligned(x + held_at(p), four);
  }
}
}  // namespace

// Grid: x = groups, y = rows.
KERNEL(groups_norm, float* __restrict x,  // [rows, groups * width]
       const float* __restrict weight,    // [groups, width]
       int groups, int width, float eps) {
  const Dim3 block = BLOCK_INDEX_AHEAD;
  float* own = x + (static_cast<size_t>(block.y) * groups + block.x) * width;
  const float* weights = weight + static_cast<size_t>(block.x) * width;
  if constexpr (WAVE > 1) {
    let_next_begin();
    // Pieces that a thread holds.
    constexpr int PIECES = 4;
    if (width % 4 == 0 && width <= PIECES * 4 * BLOCK) {
      norm_held<PIECES>(own, weights, width, eps);
      return;
    }
  }
  wait_for_inputs();
  normalize(0, own, weights, own, width, eps);
}
