// norm_add: x += y / sqrt(mean(y²) + eps) * weight, for each row
//
// To the bit what rms_norm and residual_add give. The first row also leaves the sums of squares of what x became, with
// which the next norm of a step of one row begins: norm.h.
#include "forge/norm.h"

namespace {
using namespace forge;

// The weights are asked for before the inputs are there.
template <int PIECES>
DEVICE void norm_add_held(float* x, const float* y, const float* weight, float* parts, bool is_first, int hidden,
                          float eps) {
  HeldRow<PIECES> weights, normed, own;
  load_held(weights, weight, hidden);
  wait_for_inputs();
  load_held(normed, y, hidden);
  load_held(own, x, hidden);
  SHARED(float, squares, NORM_PARTS);
  const float scale = inv_rms_of_held(normed, squares + 0, hidden, eps);
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    const int i = held_at(p);
    Floats4& sums = own.pieces[p];
    UNROLL
    for (int k = 0; k < 4; k++) sums.f[k] = sums.f[k] + normed.pieces[p].f[k] * scale * weights.pieces[p].f[k];
    if (i < hidden) store_aligned(x + i, sums);
    // All threads of a block take part.
    if (is_first && p * 4 * BLOCK < hidden) store_part(parts, i, hidden, sums);
  }
}
}  // namespace

KERNEL(norm_add, float* __restrict x,   // [rows, hidden]
       const float* __restrict y,       // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* __restrict parts,         // [ceil(hidden / NORM_PART)]
       int hidden, float eps) {
  const int block = BLOCK_INDEX_AHEAD.x;
  const size_t row = static_cast<size_t>(block) * hidden;
  const bool is_first = block == 0;
  if constexpr (WAVE > 1) {
    let_next_begin();
    // Pieces that a thread holds.
    constexpr int PIECES = 4;
    if (hidden <= PIECES * 4 * BLOCK) {
      norm_add_held<PIECES>(x + row, y + row, weight, parts, is_first, hidden, eps);
      return;
    }
  }
  wait_for_inputs();
  const float scale = inv_rms(y + row, hidden, eps);
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
    if (is_first) store_part(parts, i, hidden, held);
  }
}
