// rms_norm_columns: rms_norm, in the columns that Hopper's matrix units take
#include "forge/hopper/to_columns.h"
#include "forge/norm.h"

namespace {
using namespace forge;

// Pieces of a row that a thread holds.
constexpr int PIECES = 8;

// Normalizes rows that the threads of a block hold, with the sum in the order of inv_rms. The weights are loaded
// first: they are there when the row is, and not a memory's wait later.
template <class T>
DEVICE void norm_held(int row, const float* __restrict x, const float* __restrict weight, T* __restrict y,
                      int32_t* __restrict saturated, int hidden, int y_rows, float eps) {
  struct alignas(8) Four {
    T elements[4];
  };
  HeldRow<PIECES> weights, held;
  load_held(weights, weight, hidden);
  wait_for_inputs();
  load_held(held, x, hidden);
  SHARED(float, parts, NORM_PARTS);
  const float scale = inv_rms_of_held(held, parts + 0, hidden, eps);
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    const int i = held_at(p);
    if (i >= hidden) continue;
    Four four;
    UNROLL
    for (int j = 0; j < 4; j++)
      store_column(&four.elements[j], held.pieces[p].f[j] * scale * weights.pieces[p].f[j], saturated);
    store_aligned(y + column_place(row, i, y_rows), four);
  }
}

// One block a row.
template <class T>
DEVICE void rms_norm_columns(int row, const float* __restrict x, const float* __restrict weight, T* __restrict y,
                             int32_t* __restrict saturated, int hidden, int y_rows, float eps) {
  let_next_begin();
  const float* source = x + static_cast<size_t>(row) * hidden;
  if (hidden % CHUNK == 0 && hidden <= PIECES * 4 * BLOCK) {
    norm_held(row, source, weight, y, saturated, hidden, y_rows, eps);
    return;
  }
  wait_for_inputs();
  const float scale = inv_rms(source, hidden, eps);
  store_columns(y, row, y_rows, hidden, 0, hidden, saturated, [&](int i) { return source[i] * scale * weight[i]; });
}
}  // namespace

KERNEL(rms_norm_columns_f16, const float* __restrict x,  // [rows, hidden]
       const float* __restrict weight,                   // [hidden]
       forge::half_t* __restrict y,                      // [chunks, y_rows, CHUNK]
       int32_t* __restrict saturated,                    // [1]
       int hidden, int y_rows, float eps) {
  rms_norm_columns(BLOCK_INDEX_AHEAD.x, x, weight, y, saturated, hidden, y_rows, eps);
}

KERNEL(rms_norm_columns_bf16, const float* __restrict x, const float* __restrict weight, forge::bfloat_t* __restrict y,
       int32_t* __restrict saturated, int hidden, int y_rows, float eps) {
  rms_norm_columns(BLOCK_INDEX_AHEAD.x, x, weight, y, saturated, hidden, y_rows, eps);
}
