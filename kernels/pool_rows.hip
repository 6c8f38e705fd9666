// pool_rows: y = one row of the rows of a slice: their mean, the first or the last
//
// A mean is summed in double precision and in the order of positions, so that its bits depend neither on the slices of
// a sequence nor on what else is in their steps. A sequence of several slices carries its sums from one to the next.
#include "forge/contract.h"
#include "forge/device.h"

namespace forge {

// Elements of a row that one thread sums, and rows that it loads before it adds them.
constexpr int POOL_OWN = POOL_PART > BLOCK ? POOL_PART / BLOCK : 1;
constexpr int POOL_AHEAD = 8;

// sums[k] += x[0][k · BLOCK], x[1][k · BLOCK], ... in this order.
template <int ROWS>
DEVICE void add_rows(double* sums, const float* x, int hidden, int own) {
  SIMD
  for (int k = 0; k < own; k++) {
    float values[ROWS];
    UNROLL
    for (int row = 0; row < ROWS; row++) values[row] = x[static_cast<size_t>(row) * hidden + k * BLOCK];
    double sum = sums[k];
    UNROLL
    for (int row = 0; row < ROWS; row++) sum += static_cast<double>(values[row]);
    sums[k] = sum;
  }
}

}  // namespace forge

// Grid: x = slices, y = ceil(hidden / POOL_PART).
KERNEL(pool_rows, const float* __restrict x,  // [rows, hidden]
       const int32_t* __restrict pools,       // [pools, POOL_WORDS]: slot, first row, rows, rows before, kind
       uint8_t* __restrict sums,              // [slots, hidden] f64: sums of slices so far
       float* __restrict y,                   // [pools, hidden]
       int hidden) {
  using namespace forge;
  const int32_t* pool = pools + static_cast<size_t>(BLOCK_INDEX.x) * POOL_WORDS;
  const int count = pool[2], before = pool[3], kind = pool[4];
  const int first = BLOCK_INDEX.y * POOL_PART + thread_id(), end = min_of(hidden, (BLOCK_INDEX.y + 1) * POOL_PART);
  const int own = min_of(POOL_OWN, first < end ? (end - first + BLOCK - 1) / BLOCK : 0);
  const float* rows = x + static_cast<size_t>(pool[1]) * hidden + first;
  float* out = y + static_cast<size_t>(BLOCK_INDEX.x) * hidden + first;
  if (kind != POOL_MEAN && kind != POOL_MEAN_SO_FAR) {
    const float* row = rows + (kind == POOL_FIRST ? 0 : static_cast<size_t>(count - 1) * hidden);
    for (int k = 0; k < own; k++) out[k * BLOCK] = row[k * BLOCK];
    return;
  }
  double* carried = reinterpret_cast<double*>(sums) + static_cast<size_t>(pool[0]) * hidden + first;
  double own_sums[POOL_OWN];
  for (int k = 0; k < own; k++) own_sums[k] = before > 0 ? carried[k * BLOCK] : 0.0;
  int row = 0;
  for (; row + POOL_AHEAD <= count; row += POOL_AHEAD)
    add_rows<POOL_AHEAD>(own_sums, rows + static_cast<size_t>(row) * hidden, hidden, own);
  for (; row < count; row++) add_rows<1>(own_sums, rows + static_cast<size_t>(row) * hidden, hidden, own);
  for (int k = 0; k < own; k++) {
    if (kind == POOL_MEAN) {
      out[k * BLOCK] = static_cast<float>(own_sums[k] / static_cast<double>(before + count));
    } else {
      carried[k * BLOCK] = own_sums[k];
    }
  }
}
