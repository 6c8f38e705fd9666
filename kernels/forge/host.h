// The host target: WAVE = 1, BLOCK = 1. A block is one call of a C++ function; the thread pool of native/ hands each
// worker a contiguous range of blocks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define WAVE 1
#define BLOCK 1
#define DEVICE static inline __attribute__((always_inline))
#define UNROLL

namespace forge {

struct Dim3 {
  int x, y, z;
};

// What native/ calls: unpack the parameters once, then run blocks [first, last) of the grid, x fastest.
using HostKernel = void (*)(void* const* params, Dim3 grid, int64_t first, int64_t last);

// What native/ checks a kernel's contract against before it is ever launched.
struct KernelInfo {
  HostKernel run;
  int argument_count;
  const int* argument_bytes;
};

template <class... Args, size_t... I>
inline void run_blocks(void (*block)(Dim3, Args...), void* const* params, Dim3 grid, int64_t first, int64_t last,
                       std::index_sequence<I...>) {
  const int64_t plane = static_cast<int64_t>(grid.x) * grid.y;
  for (int64_t i = first; i < last; i++) {
    const Dim3 index{static_cast<int>(i % grid.x), static_cast<int>(i % plane / grid.x), static_cast<int>(i / plane)};
    block(index, *static_cast<std::remove_reference_t<Args>*>(params[I])...);
  }
}
template <class... Args>
inline void run_blocks(void (*block)(Dim3, Args...), void* const* params, Dim3 grid, int64_t first, int64_t last) {
  run_blocks(block, params, grid, first, last, std::index_sequence_for<Args...>{});
}
template <class... Args>
struct ArgumentBytes {
  static constexpr int value[] = {static_cast<int>(sizeof(Args))...};
};
template <class... Args>
constexpr KernelInfo describe(void (*)(Dim3, Args...), HostKernel run) {
  return {run, static_cast<int>(sizeof...(Args)), ArgumentBytes<Args...>::value};
}

// 16-bit floats are storage only: arithmetic is f32. A struct, because older compilers have no _Float16 in C++.
struct half_t {
  uint16_t bits;
};

DEVICE void block_sync() {}
DEVICE float shuffle_xor(float value, int) { return value; }
DEVICE int shuffle_xor(int value, int) { return value; }
DEVICE constexpr int thread_id() { return 0; }

DEVICE float sqrt_of(float x) { return __builtin_sqrtf(x); }
DEVICE float rsqrt_of(float x) { return 1.0f / __builtin_sqrtf(x); }

// e^x within 2 ulp, branch-free so that loops over it vectorize; 0 below -87.3, clamped above 88.
DEVICE float exp_of(float x) {
  const float y = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float n = __builtin_rintf(y * 1.44269504f);
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;  // y - n ln 2, ln 2 split in two
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t exponent = (static_cast<int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &exponent, 4);
  return x < -87.3f ? 0.0f : (x != x ? x : p * scale);
}
DEVICE float log_of(float x) { return std::log(x); }

// Adds to block-shared memory. Only ever used on integers, so that the order of lanes cannot matter.
template <class T>
DEVICE void shared_add(T* address, T value) {
  *address += value;
}

}  // namespace forge

// Shared memory of a block. On the host a block is one thread, so it is that thread's stack.
#define SHARED(type, name, count) alignas(64) type name[count]

#define FORGE_PRAGMA(text) _Pragma(#text)
// Licence to reassociate the reduction in this one loop; the order is fixed when the code is compiled.
#define SIMD_SUM(variable) FORGE_PRAGMA(omp simd reduction(+ : variable))
#define SIMD_MAX(variable) FORGE_PRAGMA(omp simd reduction(max : variable))
// States that iterations are independent.
#define SIMD FORGE_PRAGMA(omp simd)

// The block's place in the grid.
#define BLOCK_INDEX block_index

// Defines a kernel: `KERNEL(name, parameters) { body }`.
#define KERNEL(name, ...)                                                                                    \
  static void name##_block(forge::Dim3 block_index, __VA_ARGS__);                                            \
  static void name##_run(void* const* params, forge::Dim3 grid, int64_t first, int64_t last) {               \
    forge::run_blocks(name##_block, params, grid, first, last);                                              \
  }                                                                                                          \
  extern "C" __attribute__((visibility("default"))) const forge::KernelInfo name;                            \
  extern "C" const forge::KernelInfo name = forge::describe(name##_block, name##_run);                       \
  static void name##_block([[maybe_unused]] forge::Dim3 block_index, __VA_ARGS__)

#include "host_simd.h"
