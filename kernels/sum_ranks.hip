// sum_ranks: y = p0 + p1 + ..., or y += it: what ranks computed of a product, each of some of its columns
//
// Each rank reads all parts in the memory of the device that computed them and adds them in one order, so that all have
// the same bits.
#include "forge/contract.h"
#include "forge/ranks.h"

namespace {
using namespace forge;

// Grid: x = ceil(columns / SUM_RANKS_PART), y = rows.
template <int RANKS>
DEVICE void sum_ranks(Dim3 block, Parts<RANKS> parts, float* y, int columns, int accumulate) {
  const size_t row = static_cast<size_t>(block.y) * columns;
  const int first = block.x * SUM_RANKS_PART, last = min_of(columns, first + SUM_RANKS_PART);
  for (int i = first + 4 * thread_id(); i < last; i += 4 * BLOCK) {
    float sum[4];
    sum_of_parts(parts, row + i, sum);
    float* target = y + row + i;
    UNROLL
    for (int k = 0; k < 4; k++) target[k] = accumulate ? target[k] + sum[k] : sum[k];
  }
}
}  // namespace

KERNEL(sum_ranks_2, const float* p0, const float* p1,  // [rows, columns]
       int32_t* w0, int32_t* w1,                       // [barriers, WORDS_A_BARRIER]
       const int32_t* pass, int32_t* ended, float* y,  // [1], [1], [rows, columns]
       int columns, int accumulate, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<2>(block, {{w0, w1}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks<2>(block, {{p0, p1}}, y, columns, accumulate);
}

KERNEL(sum_ranks_4, const float* p0, const float* p1, const float* p2, const float* p3, int32_t* w0, int32_t* w1,
       int32_t* w2, int32_t* w3, const int32_t* pass, int32_t* ended, float* y, int columns, int accumulate, int rank,
       int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<4>(block, {{w0, w1, w2, w3}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks<4>(block, {{p0, p1, p2, p3}}, y, columns, accumulate);
}

KERNEL(sum_ranks_8, const float* p0, const float* p1, const float* p2, const float* p3, const float* p4,
       const float* p5, const float* p6, const float* p7, int32_t* w0, int32_t* w1, int32_t* w2, int32_t* w3,
       int32_t* w4, int32_t* w5, int32_t* w6, int32_t* w7, const int32_t* pass, int32_t* ended, float* y, int columns,
       int accumulate, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<8>(block, {{w0, w1, w2, w3, w4, w5, w6, w7}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks<8>(block, {{p0, p1, p2, p3, p4, p5, p6, p7}}, y, columns, accumulate);
}
