// Hopper's matrix units (sm_90a): a group of four waves multiplies 64 rows, in registers, with N columns in LDS, as
// columns.h has them.
//
//   WideSum<N>                 of a wave: 16 rows x N columns f32
//   multiply_wide(sum, parts, columns, step, keep)   sum = keep * sum + the product of a step, begun and not waited for
//   multiply_few(sum, parts, b)                      16 rows x 8 columns, at once; the same bits
//
#pragma once

#include "../tile.h"
#include "../words.h"

namespace forge {

// Blocks of the grid in x.
DEVICE int grid_width() { return static_cast<int>(gridDim.x); }

DEVICE uint32_t lds_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Index among the lanes of a wave.
DEVICE uint32_t wave_max(uint32_t value) { return __reduce_max_sync(0xffffffffu, value); }
DEVICE uint32_t wave_min(uint32_t value) { return __reduce_min_sync(0xffffffffu, value); }
DEVICE uint32_t lanes_where(bool is_true) { return __ballot_sync(0xffffffffu, is_true); }
DEVICE int count_bits(uint32_t bits) { return __popc(bits); }

template <int N>
struct WideSum {
  float values[N / 2];
};
DEVICE int wide_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
DEVICE int wide_column(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

// Columns in LDS. Each eight of 128 bytes are `apart` bytes from the next eight, their pieces swapped as the hardware
// does it: by the lowest three bits of the column.
DEVICE uint64_t columns_at(const void* lds, int apart) {
  return static_cast<uint64_t>((lds_address(lds) & 0x3ffff) >> 4) | uint64_t{1} << 16 |
         static_cast<uint64_t>(apart / 16) << 32 | uint64_t{1} << 62;
}

#include "hopper_wgmma.h"

DEVICE void wide_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wide_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int GROUPS>
DEVICE void wide_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}
// After a wait: what reads the sum comes behind it.
template <int N>
DEVICE void settle(WideSum<N>& sum) {
  UNROLL
  for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(sum.values[i])::"memory");
}

// Copies of 16 bytes to LDS; `fetch_group` and `fetch_wait` of fetch.h count them.
DEVICE void fetch_piece(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Makes this thread's fetched data visible to the matrix units; after a barrier all threads' data is.
DEVICE void show_fetched() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void group_sync(int group, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(group), "r"(threads) : "memory");
}

// Moves registers between the three groups of four waves of a block: one group needs few and gives the rest to the
// others.
DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }

// A barrier in LDS that ends a phase when `count` have arrived and all announced bytes are there.
DEVICE void barrier_begin(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(lds_address(barrier)), "r"(count) : "memory");
}
DEVICE void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(lds_address(barrier)) : "memory");
}
DEVICE void barrier_announce(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(lds_address(barrier)), "r"(bytes) : "memory");
}
// Waits for a phase; phases end in turn, and `parity` belongs to the one waited for.
DEVICE void barrier_wait(uint64_t* barrier, int parity) {
  asm volatile("{.reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again;}" ::"r"(
                   lds_address(barrier)),
               "r"(parity)
               : "memory");
}
// The copy engine brings what lies in one run to LDS, and tells the barrier.
DEVICE void bring(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(lds_address(to)),
      "l"(from), "r"(bytes), "r"(lds_address(barrier))
      : "memory");
}

// Four pieces of eight columns, as a lane brings them to multiply_few: a lane names the piece that it asks for.
DEVICE void load_columns(uint32_t (&b)[4], uint32_t piece) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(piece)
               : "memory");
}
template <class T>
DEVICE void multiply_few(float (&sum)[4], const uint32_t (&parts)[4], uint32_t b0, uint32_t b1) {
#define FORGE_MMA(type)                                                               \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])               \
               : "r"(parts[0]), "r"(parts[1]), "r"(parts[2]), "r"(parts[3]), "r"(b0), "r"(b1))
  if constexpr (IS_HALF<T>) {
    FORGE_MMA("f16");
  } else {
    FORGE_MMA("bf16");
  }
#undef FORGE_MMA
}

// Weights that a step reads once: past the first cache.
struct StreamLoad {
  DEVICE Words4 of(const uint8_t* p, Words4) {
    Words4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "l"(p));
    return v;
  }
  DEVICE Words2 of(const uint8_t* p, Words2) {
    Words2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
    return v;
  }
  DEVICE uint32_t of(const uint8_t* p, uint32_t) {
    uint32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
  }
};

}  // namespace forge
