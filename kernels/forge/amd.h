// The AMD target: one wave is 32 lanes (RDNA) or 64 (CDNA), set by the build with -DFORGE_WAVE. Nothing here needs
// ROCm's headers or device library, so stock clang compiles it.
#pragma once

#ifndef FORGE_WAVE
#error "build with -DFORGE_WAVE=32 (gfx10 and later) or 64 (gfx9)"
#endif
#define WAVE FORGE_WAVE
#define BLOCK 256

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define DEVICE static __device__ inline __attribute__((always_inline))
#define TABLE static __device__ constexpr
#define UNROLL _Pragma("unroll")
// Keeps a loop a loop, for the registers that its turns would take side by side.
#define ROLLED _Pragma("unroll 1")

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;

namespace forge {

struct Dim3 {
  int x, y, z;
};

using half_t = _Float16;
DEVICE float to_float(half_t h) { return static_cast<float>(h); }
DEVICE half_t to_half(float f) {
  // Else a product and its rounding become one v_fma_mixlo_f16 that adds +0, and -0 is lost.
  asm("" : "+v"(f));
  return static_cast<half_t>(f);
}

DEVICE int thread_id() { return __builtin_amdgcn_workitem_id_x(); }
// The same, of which the compiler does not know it: what is computed of it stays in a loop, and takes no registers
// there.
DEVICE int thread_id_anew() {
  int id = thread_id();
  asm volatile("" : "+v"(id));
  __builtin_assume(id >= 0 && id < BLOCK);
  return id;
}
// A number that all lanes of a wave have alike, in a scalar register: what depends on it takes no vector registers.
DEVICE int same_in_wave(int value) { return __builtin_amdgcn_readfirstlane(value); }
DEVICE Dim3 workgroup() {
  return {static_cast<int>(__builtin_amdgcn_workgroup_id_x()), static_cast<int>(__builtin_amdgcn_workgroup_id_y()),
          static_cast<int>(__builtin_amdgcn_workgroup_id_z())};
}
DEVICE void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// ds_bpermute takes the source lane's byte address (lane * 4) first.
DEVICE int shuffle_xor(int value, int mask) {
  const unsigned lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  return __builtin_amdgcn_ds_bpermute(static_cast<int>((lane ^ mask) << 2), value);
}
DEVICE float shuffle_xor(float value, int mask) {
  return __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(int, value), mask));
}

DEVICE float sqrt_of(float x) { return __builtin_sqrtf(x); }
DEVICE float rsqrt_of(float x) { return 1.0f / __builtin_sqrtf(x); }
DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Maximum of two numbers in one instruction; of a number and a NaN, either.
DEVICE float larger_of(float a, float b) { return __builtin_fmaxf(a, b); }
// v_exp_f32 is 2^x. The product's rounding error is put back, or large |x| would lose bits.
DEVICE float exp_of(float x) {
  const float high = x * 1.44269502f;
  const float low = __builtin_fmaf(x, 1.44269502f, -high) + x * 1.92596303e-8f;
  if (x > 88.7f) return __builtin_inff();
  return x < -87.3f ? 0.0f : __builtin_amdgcn_exp2f(high) * (1.0f + low * 0.69314718f);
}
// 2^x, 0 for what would be denormal: one instruction.
DEVICE float exp2_of(float x) { return __builtin_amdgcn_exp2f(x); }
// v_log_f32 is log2.
// a / b, which other devices may take less exactly.
DEVICE float quotient_of(float a, float b) { return a / b; }
DEVICE float log_of(float x) { return __builtin_amdgcn_logf(x) * 0.69314718f; }

// c plus the products of the four signed bytes of a and b.
DEVICE int dot4(int a, int b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#else
  return __builtin_amdgcn_sdot4(a, b, c, false);
#endif
}
// Selects bytes of low, places 0 to 3, and of high, 4 to 7, that the bytes of places name.
DEVICE uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t places) {
  return __builtin_amdgcn_perm(high, low, places);
}

// No load or store is moved over it: bounds how many a compiler brings forward, and so the registers they take. This
// one brings forward more than there are registers for.
DEVICE void schedule_fence() { asm volatile("" ::: "memory"); }
constexpr bool HOARDS_LOADS = true;
// Nothing at all is moved over it: what is computed for many registers would be computed for all at once.
DEVICE void schedule_here() { __builtin_amdgcn_sched_barrier(0); }

// Reads a word that another device wrote last: no copy of it in a cache is used.
DEVICE int32_t load_fresh(const int32_t* p) {
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Fences between blocks of one launch: see last_block.h. The compiler chooses them, which knows the
// caches of a target: on gfx10 and later a wave's stores have ended in the L2, which all units share; of gfx942, which
// has an L2 a chiplet, they are written through it, and what other chiplets may have written is forgotten.
DEVICE void show_writes() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
DEVICE void see_writes() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
// By one thread of a block that has shown what it wrote; returns how many came before it.
DEVICE int arrive(int32_t* counter) {
  return __hip_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T>
DEVICE void shared_add(T& element, T value) {
  __hip_atomic_fetch_add(&element, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

}  // namespace forge

#define SHARED(type, name, count) __shared__ type name[count]
#define SIMD_SUM(variable)
#define SIMD_MAX(variable)
#define SIMD

#define BLOCK_INDEX forge::workgroup()
#define KERNEL(name, ...) \
  extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(BLOCK, BLOCK))) void name(__VA_ARGS__)
// A kernel of which a compute unit, of four SIMDs, is to hold `blocks` blocks at a time: a bound on its registers. Vega
// 20 has half as many as CDNA.
#if defined(__gfx906__)
#define WAVES_RESIDENT(blocks) ((blocks) < 2 ? 1 : (blocks)*BLOCK / WAVE / 8)
#else
#define WAVES_RESIDENT(blocks) ((blocks)*BLOCK / WAVE / 4)
#endif
#define KERNEL_RESIDENT(blocks, name, ...)                                                                         \
  extern "C" __global__                                                                                            \
      __attribute__((amdgpu_flat_work_group_size(BLOCK, BLOCK), amdgpu_waves_per_eu(WAVES_RESIDENT(blocks)))) void \
      name(__VA_ARGS__)
