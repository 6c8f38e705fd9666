// The host target: WAVE = 1, BLOCK = 1. A block is one call of a C++ function; the thread pool of native/ hands each
// worker a contiguous range of blocks.
#pragma once

#define WAVE 1
#define BLOCK 1

namespace forge {
template <class Body>
inline __attribute__((always_inline)) void run_block(Body body) {
  body();
}
}  // namespace forge

#include "cpu.h"

namespace forge {

DEVICE void block_sync() {}
DEVICE float shuffle_xor(float value, int) { return value; }
DEVICE int shuffle_xor(int value, int) { return value; }
DEVICE constexpr int thread_id() { return 0; }
DEVICE constexpr int thread_id_anew() { return 0; }

// Adds to an element of block-shared memory. Only ever used on integers, so that the order of lanes cannot matter.
template <class T>
DEVICE void shared_add(T& element, T value) {
  element += value;
}

}  // namespace forge

// Shared memory of a block. On the host a block is one thread, so it is that thread's stack.
#define SHARED(type, name, count) alignas(64) type name[count]

// Licence to reassociate the reduction in this one loop; the order is fixed when the code is compiled.
#define SIMD_SUM(variable) FORGE_PRAGMA(omp simd reduction(+ : variable))
#define SIMD_MAX(variable) FORGE_PRAGMA(omp simd reduction(max : variable))
// States that iterations are independent.
#define SIMD FORGE_PRAGMA(omp simd)

#include "host_simd.h"
