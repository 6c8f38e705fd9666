// The NVIDIA target: one wave is 32 lanes. Compiled by nvcc to a cubin for HIP's second platform; nothing here needs
// the CUDA runtime.
#pragma once

#define WAVE 32
#define BLOCK 256

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

// Marks memory that nothing writes while the kernel runs. That is not true of a launch which begins
// before others have ended (below): loads would be moved to before it waits for them. What a function writes and reads
// nowhere else may be __restrict__, which the compiler knows, too.
#define __restrict

#define DEVICE static __device__ __forceinline__
#define TABLE static __device__ constexpr
#define UNROLL _Pragma("unroll")
// Keeps a loop a loop, for the registers that its turns would take side by side.
#define ROLLED _Pragma("unroll 1")

namespace forge {

struct Dim3 {
  int x, y, z;
};

using half_t = __half;
DEVICE float to_float(half_t h) { return __half2float(h); }
DEVICE half_t to_half(float f) { return __float2half_rn(f); }

DEVICE int thread_id() { return static_cast<int>(threadIdx.x); }
// The same, of which the compiler does not know it: what is computed of it stays in a loop, and takes no registers
// there.
DEVICE int thread_id_anew() {
  int id = thread_id();
  asm volatile("" : "+r"(id));
  __builtin_assume(id >= 0 && id < BLOCK);
  return id;
}
DEVICE int same_in_wave(int value) { return value; }
DEVICE Dim3 workgroup() {
  return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
}

// From sm_90 on a launch may begin while the one before it still runs (programmatic dependent launch): as soon as all
// of its blocks let it. Its blocks wait before they read what earlier launches wrote.
#if __CUDA_ARCH__ >= 900
DEVICE void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
DEVICE void wait_for_inputs() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Has memory brought to L2, 16 bytes or a multiple of them. Nothing waits for it.
DEVICE void bring_to_l2(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes));
}
#else
DEVICE void let_next_begin() {}
DEVICE void wait_for_inputs() {}
#endif
DEVICE Dim3 workgroup_in_turn() {
  let_next_begin();
  wait_for_inputs();
  return workgroup();
}

DEVICE void block_sync() { __syncthreads(); }
DEVICE int shuffle_xor(int value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }

DEVICE float sqrt_of(float x) { return __fsqrt_rn(x); }
DEVICE float rsqrt_of(float x) { return 1.0f / __fsqrt_rn(x); }
DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// Maximum of two numbers in one instruction; of a number and a NaN, either.
DEVICE float larger_of(float a, float b) { return fmaxf(a, b); }
DEVICE float exp_of(float x) { return expf(x); }
// 2^x, 0 for what would be denormal: one instruction.
DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// a / b, within two units in the last place.
DEVICE float quotient_of(float a, float b) { return __fdividef(a, b); }
DEVICE float log_of(float x) { return logf(x); }

// c plus the products of the four signed bytes of a and b.
DEVICE int dot4(int a, int b, int c) { return __dp4a(a, b, c); }
// Selects bytes of low, places 0 to 3, and of high, 4 to 7, that the bytes of places name.
DEVICE uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t places) {
  // The instruction takes a nibble a place.
  return __byte_perm(low, high, __byte_perm(places | places >> 4, 0, 0x4420));
}

// No load or store is moved over it: bounds how many a compiler brings forward, and so the registers they take.
DEVICE void schedule_fence() { asm volatile("" ::: "memory"); }
constexpr bool HOARDS_LOADS = false;
DEVICE void schedule_here() {}

// Reads a word that another device wrote last: no copy of it in a cache is used.
DEVICE int32_t load_fresh(const int32_t* p) { return *static_cast<const volatile int32_t*>(p); }

// Fences between blocks of one launch: see last_block.h. Fences of one thread are for all that its
// barriers put before and behind it.
DEVICE void show_writes() {}
DEVICE void see_writes() {}
// By one thread of a block; returns how many came before it.
DEVICE int arrive(int32_t* counter) {
  __threadfence();
  const int before = atomicAdd(counter, 1);
  __threadfence();
  return before;
}

DEVICE void shared_add(int& element, int value) { atomicAdd(&element, value); }
DEVICE void shared_add(uint64_t& element, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(&element), static_cast<unsigned long long>(value));
}

}  // namespace forge

#define SHARED(type, name, count) __shared__ type name[count]
#define SIMD_SUM(variable)
#define SIMD_MAX(variable)
#define SIMD

#define BLOCK_INDEX forge::workgroup_in_turn()
#define BLOCK_INDEX_AHEAD forge::workgroup()
// One whose blocks are of another number of threads.
#define KERNEL_OF(threads, blocks, name, ...) \
  extern "C" __global__ __launch_bounds__(threads, blocks) void name(__VA_ARGS__)
#define KERNEL(name, ...) extern "C" __global__ __launch_bounds__(BLOCK) void name(__VA_ARGS__)
// A kernel of which a multiprocessor is to hold `blocks` blocks at a time: a bound on its registers.
#define KERNEL_RESIDENT(blocks, name, ...) extern "C" __global__ __launch_bounds__(BLOCK, blocks) void name(__VA_ARGS__)
