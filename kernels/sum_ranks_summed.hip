// sum_ranks_summed: y += p0 + p1 + ... of one row, and the sums of the squares of what y became
//
// sum_ranks, to the bit. The sums are those that the row's norm begins with: norm.h.
#include "forge/contract.h"
#include "forge/norm.h"
#include "forge/ranks.h"

namespace {
using namespace forge;

// Grid: x = ceil(columns / SUM_RANKS_PART). All threads of a block take part in the sums.
template <int RANKS>
DEVICE void sum_ranks_summed(int block, Parts<RANKS> of, float* y, float* parts, int columns) {
  const int first = block * SUM_RANKS_PART, last = min_of(columns, first + SUM_RANKS_PART);
  for (int from = first; from < last; from += HELD_OF_PART * BLOCK) {
    const int i = from + HELD_OF_PART * thread_id();
    float held[HELD_OF_PART] = {};
    if (i < last) {
      UNROLL
      for (int part = 0; part < HELD_OF_PART; part += 4) {
        float sum[4];
        sum_of_parts(of, i + part, sum);
        UNROLL
        for (int k = 0; k < 4; k++) held[part + k] = y[i + part + k] += sum[k];
      }
    }
    store_part(parts, i, last, held);
  }
}
}  // namespace

KERNEL(sum_ranks_summed_2, const float* p0, const float* p1, int32_t* w0, int32_t* w1, const int32_t* pass,
       int32_t* ended, float* y, float* parts, int columns, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<2>(block, {{w0, w1}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks_summed<2>(block.x, {{p0, p1}}, y, parts, columns);
}

KERNEL(sum_ranks_summed_4, const float* p0, const float* p1, const float* p2, const float* p3, int32_t* w0, int32_t* w1,
       int32_t* w2, int32_t* w3, const int32_t* pass, int32_t* ended, float* y, float* parts, int columns, int rank,
       int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<4>(block, {{w0, w1, w2, w3}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks_summed<4>(block.x, {{p0, p1, p2, p3}}, y, parts, columns);
}

KERNEL(sum_ranks_summed_8, const float* p0, const float* p1, const float* p2, const float* p3, const float* p4,
       const float* p5, const float* p6, const float* p7, int32_t* w0, int32_t* w1, int32_t* w2, int32_t* w3,
       int32_t* w4, int32_t* w5, int32_t* w6, int32_t* w7, const int32_t* pass, int32_t* ended, float* y, float* parts,
       int columns, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<8>(block, {{w0, w1, w2, w3, w4, w5, w6, w7}}, pass, ended, rank, barrier, patience_ms);
  sum_ranks_summed<8>(block.x, {{p0, p1, p2, p3, p4, p5, p6, p7}}, y, parts, columns);
}
