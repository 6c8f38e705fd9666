// gather_ranks: y = p0, p1, ... side by side: what ranks computed of a product, each of some of its rows
#include "forge/contract.h"
#include "forge/ranks.h"

namespace {
using namespace forge;

// Grid: x = ceil(columns / GATHER_RANKS_PART), y = rows. Of the last rank's rows there may be fewer.
template <int RANKS>
DEVICE void gather_ranks(Dim3 block, Parts<RANKS> parts, float* y, int columns, int part) {
  const int first = block.x * GATHER_RANKS_PART, last = min_of(columns, first + GATHER_RANKS_PART);
  for (int i = first + thread_id(); i < last; i += BLOCK) {
    const int owner = i / part;
    const float* from = parts.of[0];
    UNROLL
    for (int r = 1; r < RANKS; r++) {
      if (r == owner) from = parts.of[r];
    }
    const int width = owner == RANKS - 1 ? columns - part * owner : part;
    y[static_cast<size_t>(block.y) * columns + i] =
        load_from_peer(from + static_cast<size_t>(block.y) * width + i - part * owner);
  }
}
}  // namespace

KERNEL(gather_ranks_2, const float* p0, const float* p1,  // [rows, part]
       int32_t* w0, int32_t* w1,                          // [barriers, WORDS_A_BARRIER]
       const int32_t* pass, int32_t* ended, float* y,     // [1], [1], [rows, columns]
       int columns, int part, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<2>(block, {{w0, w1}}, pass, ended, rank, barrier, patience_ms);
  gather_ranks<2>(block, {{p0, p1}}, y, columns, part);
}

KERNEL(gather_ranks_4, const float* p0, const float* p1, const float* p2, const float* p3, int32_t* w0, int32_t* w1,
       int32_t* w2, int32_t* w3, const int32_t* pass, int32_t* ended, float* y, int columns, int part, int rank,
       int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<4>(block, {{w0, w1, w2, w3}}, pass, ended, rank, barrier, patience_ms);
  gather_ranks<4>(block, {{p0, p1, p2, p3}}, y, columns, part);
}

KERNEL(gather_ranks_8, const float* p0, const float* p1, const float* p2, const float* p3, const float* p4,
       const float* p5, const float* p6, const float* p7, int32_t* w0, int32_t* w1, int32_t* w2, int32_t* w3,
       int32_t* w4, int32_t* w5, int32_t* w6, int32_t* w7, const int32_t* pass, int32_t* ended, float* y, int columns,
       int part, int rank, int barrier, int patience_ms) {
  const forge::Dim3 block = BLOCK_INDEX;
  forge::wait_at_barrier<8>(block, {{w0, w1, w2, w3, w4, w5, w6, w7}}, pass, ended, rank, barrier, patience_ms);
  gather_ranks<8>(block, {{p0, p1, p2, p3, p4, p5, p6, p7}}, y, columns, part);
}
