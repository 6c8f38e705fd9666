// norm_add: x += y / sqrt(mean(y²) + eps) * weight, for each row
//
// To the bit what rms_norm and residual_add give. The first row also leaves the sums of squares of what x became, with
// which the next norm of a step of one row begins: norm.h.
#include "forge/norm.h"

namespace {
using namespace forge;

// A row is held whole on GPUs whose launches overlap; the simulated lanes run that, too.
#if defined(__CUDACC__) || defined(FORGE_LANES)
#define HOLDS_ROW 1
#else
#define HOLDS_ROW 0
#endif
// Pieces of four elements of a row that a thread holds.
constexpr int HELD = 4;

#if HOLDS_ROW
// A row that the threads of the block hold: all of it is asked for at once, the weights before the inputs are there.
DEVICE void norm_add_held(float* x, const float* y, const float* weight, float* parts, bool is_first, int hidden,
                          float eps) {
  const int first = 4 * thread_id();
  Floats4 weights[HELD], normed[HELD], own[HELD];
  UNROLL
  for (int p = 0; p < HELD; p++) {
    if (first + p * 4 * BLOCK < hidden) weights[p] = load_aligned<Floats4>(weight + first + p * 4 * BLOCK);
  }
  wait_for_inputs();
  UNROLL
  for (int p = 0; p < HELD; p++) {
    const int i = first + p * 4 * BLOCK;
    if (i < hidden) normed[p] = load_aligned<Floats4>(y + i), own[p] = load_aligned<Floats4>(x + i);
  }
  SHARED(float, squares, NORM_PARTS);
  UNROLL
  for (int p = 0; p < HELD; p++) {
    if (p * 4 * BLOCK < hidden) leave_part(squares + 0, first + p * 4 * BLOCK, hidden, normed[p]);
  }
  block_sync();
  const float scale = rms_of_parts(squares + 0, hidden, eps);
  UNROLL
  for (int p = 0; p < HELD; p++) {
    const int i = first + p * 4 * BLOCK;
    UNROLL
    for (int k = 0; k < 4; k++) own[p].f[k] = own[p].f[k] + normed[p].f[k] * scale * weights[p].f[k];
    if (i < hidden) store_aligned(x + i, own[p]);
    // All threads of a block take part.
    if (is_first && p * 4 * BLOCK < hidden) leave_part(parts, i, hidden, own[p]);
  }
}
#endif
}  // namespace

KERNEL(norm_add, float* __restrict x,   // [rows, hidden]
       const float* __restrict y,       // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* __restrict parts,         // [ceil(hidden / NORM_PART)]
       int hidden, float eps) {
  const int block = BLOCK_INDEX_AHEAD.x;
  const size_t row = static_cast<size_t>(block) * hidden;
  const bool is_first = block == 0;
#if HOLDS_ROW
  let_next_begin();
  if (hidden <= HELD * 4 * BLOCK) {
    norm_add_held(x + row, y + row, weight, parts, is_first, hidden, eps);
    return;
  }
#endif
  wait_for_inputs();
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
