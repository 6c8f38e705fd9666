// Code shared by the two targets that run on a CPU: a kernel's entry, 16-bit floats, and the math of single numbers.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define DEVICE static inline __attribute__((always_inline))
#define TABLE static constexpr
#define UNROLL
#define ROLLED
#define FORGE_PRAGMA(text) _Pragma(#text)
#define FORGE_EXPORT __attribute__((visibility("default")))

namespace forge {

// Reads a word that another device wrote last: no copy of it in a cache is used.
DEVICE int32_t load_fresh(const int32_t* p) { return *p; }

struct Dim3 {
  int x, y, z;
};

// Entry that native/ calls: unpack the parameters once, then run blocks [first, last) of the grid, x fastest.
using HostKernel = void (*)(void* const* params, Dim3 grid, int64_t first, int64_t last);

// Description against which native/ checks a kernel's contract before the first launch.
struct KernelInfo {
  HostKernel run;
  int argument_count;
  const int* argument_bytes;
};

template <class... Args>
struct ArgumentBytes {
  static constexpr int value[] = {static_cast<int>(sizeof(Args))...};
};
template <class... Args>
constexpr KernelInfo describe(void (*)(Dim3, Args...), HostKernel run) {
  return {run, static_cast<int>(sizeof...(Args)), ArgumentBytes<Args...>::value};
}

// Calls `block` for each block of the range with the arguments that params point at.
template <class... Args, size_t... I>
inline void run_blocks(void (*block)(Dim3, Args...), void* const* params, Dim3 grid, int64_t first, int64_t last,
                       std::index_sequence<I...>) {
  const int64_t plane = static_cast<int64_t>(grid.x) * grid.y;
  for (int64_t i = first; i < last; i++) {
    const Dim3 index{static_cast<int>(i % grid.x), static_cast<int>(i % plane / grid.x), static_cast<int>(i / plane)};
    run_block([&] { block(index, *static_cast<std::remove_reference_t<Args>*>(params[I])...); });
  }
}
template <class... Args>
inline void run_blocks(void (*block)(Dim3, Args...), void* const* params, Dim3 grid, int64_t first, int64_t last) {
  run_blocks(block, params, grid, first, last, std::index_sequence_for<Args...>{});
}

// 16-bit floats are storage only: arithmetic is f32. A struct, because older compilers have no _Float16 in C++.
struct half_t {
  uint16_t bits;
};
DEVICE float to_float(half_t h) { return _cvtsh_ss(h.bits); }
DEVICE half_t to_half(float f) { return half_t{static_cast<uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT))}; }

DEVICE float sqrt_of(float x) { return __builtin_sqrtf(x); }
DEVICE float rsqrt_of(float x) { return 1.0f / __builtin_sqrtf(x); }
DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Maximum of two numbers in one instruction; of a number and a NaN, either.
DEVICE float larger_of(float a, float b) { return a > b ? a : b; }

// e^x within 2 ulp, branch-free so that loops over it vectorize; 0 below -87.3, infinite above 88.7.
DEVICE float exp_of(float x) {
  const float y = x < -87.0f ? -87.0f : (x > 88.7f ? 88.7f : x);
  // At most 127, the largest exponent there is: the last 0.4 before the overflow lie further out on the polynomial.
  const float nearest = __builtin_rintf(y * 1.44269504f);
  const float n = nearest > 127.0f ? 127.0f : nearest;
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
  return x < -87.3f ? 0.0f : (x != x ? x : (x > 88.7f ? __builtin_inff() : p * scale));
}
DEVICE float exp2_of(float x) { return exp_of(x * 0.693147181f); }
// a / b, which other devices may take less exactly.
DEVICE float quotient_of(float a, float b) { return a / b; }
DEVICE float log_of(float x) { return std::log(x); }

DEVICE int same_in_wave(int value) { return value; }
// Fences between blocks of one launch: see last_block.h.
DEVICE void show_writes() {}
DEVICE void see_writes() {}
DEVICE int arrive(int32_t* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL); }
// For GPUs: bounds what a compiler brings forward.
DEVICE void schedule_fence() {}
constexpr bool HOARDS_LOADS = false;
DEVICE void schedule_here() {}

// c plus the products of the four signed bytes of a and b.
DEVICE int dot4(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  return c;
}
// Selects bytes of low, places 0 to 3, and of high, 4 to 7, that the bytes of places name.
DEVICE uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t places) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  uint32_t bytes = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    bytes |= static_cast<uint32_t>(both >> (8 * (places >> shift & 7)) & 255) << shift;
  }
  return bytes;
}

}  // namespace forge

// The block's place in the grid.
#define BLOCK_INDEX block_index

// Defines a kernel: `KERNEL(name, parameters) { body }`.
#define KERNEL(name, ...)                                                                      \
  static void name##_block(forge::Dim3 block_index, __VA_ARGS__);                              \
  static void name##_run(void* const* params, forge::Dim3 grid, int64_t first, int64_t last) { \
    forge::run_blocks(name##_block, params, grid, first, last);                                \
  }                                                                                            \
  extern "C" FORGE_EXPORT const forge::KernelInfo name;                                        \
  extern "C" const forge::KernelInfo name = forge::describe(name##_block, name##_run);         \
  static void name##_block([[maybe_unused]] forge::Dim3 block_index, __VA_ARGS__)
// On a GPU, of which a multiprocessor is to hold `blocks` blocks at a time.
#define KERNEL_RESIDENT(blocks, name, ...) KERNEL(name, __VA_ARGS__)
