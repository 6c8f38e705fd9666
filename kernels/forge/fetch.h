// Brings pieces from memory to LDS while the wave computes. A thread starts its fetches, closes the group, computes,
// and finishes them; after a wait and a barrier all threads may read. Where the hardware copies by itself (cp.async)
// the starts do all the work, elsewhere a started fetch waits in registers until it is finished.
#pragma once

#include "tile.h"

namespace forge {

#if defined(__CUDACC__)

// Number of tiles in LDS that rotate: one is computed on, the next has arrived, the others are in flight. And number of
// blocks with 48 KiB of such tiles a multiprocessor holds.
constexpr int FETCH_STAGES = 4, FETCH_BLOCKS = 2;
// Blocks that read all they need at once, of which others are to compute meanwhile.
constexpr int STREAM_BLOCKS = 3;

template <int N>
struct Fetches {};

// Fetch i of N: eight elements, or zeros, to element `slot` of LDS.
template <int N>
DEVICE void fetch_start(Fetches<N>&, int, Piece* lds, int slot, const void* from, bool inside) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(lds + slot));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
template <int N>
DEVICE void fetch_finish(const Fetches<N>&, int, Piece*, int) {}
DEVICE void fetch_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the newest `groups` groups have arrived.
template <int GROUPS>
DEVICE void fetch_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

#else

// TILES_BY_DOTS: an even number, whose turns a compiler still writes out.
constexpr int FETCH_STAGES = TILES_BY_DOTS ? 4 : 3, FETCH_BLOCKS = 1, STREAM_BLOCKS = 1;

template <int N>
struct Fetches {
  Piece pieces[N];
};

template <int N, class Lds>
DEVICE void fetch_start(Fetches<N>& fetches, int i, Lds, int, const void* from, bool inside) {
  fetches.pieces[i] = inside ? load_piece(from) : zero_piece();
}
template <int N, class Lds>
DEVICE void fetch_finish(const Fetches<N>& fetches, int i, Lds lds, int slot) {
  lds[slot] = fetches.pieces[i];
}
DEVICE void fetch_group() {}
template <int GROUPS>
DEVICE void fetch_wait() {}

#endif

}  // namespace forge
