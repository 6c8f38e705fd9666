// norm_add: x += y / sqrt(mean(y²) + eps) * weight, for each row
//
// To the bit what rms_norm and residual_add give. The first row also leaves the sums of squares of what x became, with
// which the next norm of a step of one row begins: norm.h.
#include "forge/norm.h"

KERNEL(norm_add, float* __restrict x,   // [rows, hidden]
       const float* __restrict y,       // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* __restrict parts,         // [ceil(hidden / NORM_PART)]
       int hidden, float eps) {
  using namespace forge;
  const size_t row = static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  const bool is_first = BLOCK_INDEX.x == 0;
  const float scale = rms_scale(y + row, hidden, eps);
  for (int from = 0; from < hidden; from += HELD_OF_PART * BLOCK) {
    const int i = from + HELD_OF_PART * thread_id();
    float held[HELD_OF_PART] = {};
    UNROLL
    for (int part = 0; part < HELD_OF_PART; part += 4) {
      // The row's length is a multiple of 4, so that four elements are all of the row or none.
      if (i + part >= hidden) continue;
      const auto own = load_aligned<Floats4>(x + row + i + part), normed = load_aligned<Floats4>(y + row + i + part);
      const auto weights = load_aligned<Floats4>(weight + i + part);
      Floats4 sums;
      UNROLL
      for (int k = 0; k < 4; k++) held[part + k] = sums.f[k] = own.f[k] + normed.f[k] * scale * weights.f[k];
      store_aligned(x + row + i + part, sums);
    }
    // All threads of a block take part.
    if (is_first) leave_part(parts, i, hidden, held);
  }
}
