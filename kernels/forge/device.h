// The device prelude: what a kernel may use, the same on every target.
//
//   target   wave      block        how a kernel runs
//   amd      32 or 64  256          one HSACO code object, compiled by clang without ROCm's headers
//   host     1         1            plain C++: barriers and shuffles vanish, strided loops become contiguous ones
//   lanes    32 or 64  256          for tests: C++ that simulates each thread and checks barriers, shuffles and LDS
//
// A kernel is written for any WAVE and BLOCK. It never asks which target it is compiled for: what differs between
// targets lives in this folder and nowhere else.
#pragma once

#if defined(__CUDACC__)
#include "cuda.h"
#elif defined(__HIP__)
#include "amd.h"
#elif defined(FORGE_LANES)
#include "lanes.h"
#else
#include "host.h"
#endif

namespace forge {

// A kernel takes its block's index as BLOCK_INDEX. One that loads weights before anything else takes BLOCK_INDEX_AHEAD,
// and in every block calls wait_for_inputs() before it reads or writes what other launches do. let_next_begin() is for
// the end of its loops: blocks of the next launch, should they begin before that, would be dealt to the multiprocessors
// unevenly. Launches overlap only on NVIDIA; elsewhere the two are the same.
#ifndef BLOCK_INDEX_AHEAD
#define BLOCK_INDEX_AHEAD BLOCK_INDEX
DEVICE void let_next_begin() {}
DEVICE void wait_for_inputs() {}
#endif

// The simulated lanes check what a wide access demands of an address.
#ifndef check_alignment
DEVICE void check_alignment(const void*, size_t) {}
#endif

constexpr int WAVES = BLOCK / WAVE;

// Scores of masked positions, and the identity of max. Finite, so that (-MASKED) - (-MASKED) is 0 and never NaN.
constexpr float LOWEST = -3.0e38f;

DEVICE int lane_id() { return WAVE == 1 ? 0 : thread_id() % WAVE; }
// See thread_id_anew: addresses of LDS that are computed of it are no registers that a loop holds. nvcc holds few.
#if defined(__CUDACC__)
DEVICE int lane_id_anew() { return lane_id(); }
#else
DEVICE int lane_id_anew() { return WAVE == 1 ? 0 : thread_id_anew() % WAVE; }
#endif
DEVICE int wave_id() { return WAVE == 1 ? 0 : same_in_wave(thread_id() / WAVE); }

// A number that a template can take from an argument's type.
template <auto N>
struct Constant {
  static constexpr auto value = N;
};

// The first type if CONDITION holds, else the second.
template <bool CONDITION, class First, class Second>
struct Choose {
  using Type = First;
};
template <class First, class Second>
struct Choose<false, First, Second> {
  using Type = Second;
};

template <class T>
DEVICE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
DEVICE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

// bfloat16: the upper half of an f32, for storage alone.
struct bfloat_t {
  uint16_t bits;
};
DEVICE float to_float(bfloat_t b) {
  const uint32_t bits = static_cast<uint32_t>(b.bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
DEVICE float to_float(float f) { return f; }

DEVICE void store(float* p, float value) { *p = value; }
DEVICE void store(half_t* p, float value) { *p = to_half(value); }
// Rounded to nearest, ties to even; a NaN stays one.
DEVICE void store(bfloat_t* p, float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  p->bits = static_cast<uint16_t>(value == value ? rounded : 0x7fc0u);
}

DEVICE float silu(float v) { return v / (1.0f + exp_of(-v)); }
// The form with tanh, Hendrycks & Gimpel (2016), as tanh(u) = 2 / (1 + e^-2u) - 1: v / (1 + e^(-2 √(2/π) (v + 0.044715
// v³))).
DEVICE float gelu(float v) { return v / (1.0f + exp_of(-1.59576912f * (v + 0.044715f * v * v * v))); }
// cap * tanh(x / cap): what is small stays, and nothing is beyond the cap.
DEVICE float softcapped(float x, float cap) { return cap - 2.0f * cap / (1.0f + exp_of(2.0f * x / cap)); }

// Sum and maximum over the lanes of a wave. The butterfly gives every lane the same bits.
DEVICE float wave_sum(float value) {
  UNROLL
  for (int offset = WAVE / 2; offset > 0; offset >>= 1) value += shuffle_xor(value, offset);
  return value;
}
DEVICE float wave_max(float value) {
  UNROLL
  for (int offset = WAVE / 2; offset > 0; offset >>= 1) value = max_of(value, shuffle_xor(value, offset));
  return value;
}

}  // namespace forge
