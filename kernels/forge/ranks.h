// Synchronization of devices that compute one model together: words in the memory of the one that waits for them.
// Each launch of a pass in which ranks synchronize has a word a rank, and what it holds is the number of the pass.
#pragma once

#include "contract.h"
#include "device.h"

#if !defined(__CUDACC__) && !defined(__HIP__)
#include <time.h>
#endif

namespace forge {

constexpr uint64_t NANOSECONDS_A_MILLISECOND = 1000000;
// Turns of a wait before it is asked whether it has been ended, and what time it is.
constexpr uint32_t TURNS_UNASKED = 64;
// Numbers of passes from one that has been ended on, which are not waited for either: the host ends them one by one,
// and the latest is what is left to see.
constexpr uint32_t PASSES_ENDED = 64;

#if defined(__CUDACC__)
DEVICE void store_for_peer(int32_t* word, int32_t value) {
  asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
DEVICE int32_t load_from_peer(const int32_t* word) {
  int32_t value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
// Drops cached copies of another device's memory from an earlier pass.
DEVICE void load_from_peer(const float* from, float (&to)[4]) {
  asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(from)
               : "memory");
}
DEVICE float load_from_peer(const float* from) {
  float value;
  asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
DEVICE uint64_t clock_ns() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
DEVICE void pause_waiting(uint32_t) {}
#elif defined(__HIP__)
DEVICE void store_for_peer(int32_t* word, int32_t value) {
  __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE int32_t load_from_peer(const int32_t* word) {
  return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE float load_from_peer(const float* from) {
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE void load_from_peer(const float* from, float (&to)[4]) {
  UNROLL
  for (int i = 0; i < 4; i++) to[i] = load_from_peer(from + i);
}
// Ticks of 100 MHz.
DEVICE uint64_t clock_ns() { return __builtin_readsteadycounter() * 10; }
DEVICE void pause_waiting(uint32_t) { __builtin_amdgcn_s_sleep(1); }
#else
DEVICE void store_for_peer(int32_t* word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
DEVICE int32_t load_from_peer(const int32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
DEVICE float load_from_peer(const float* from) { return *from; }
DEVICE void load_from_peer(const float* from, float (&to)[4]) {
  for (int i = 0; i < 4; i++) to[i] = from[i];
}
DEVICE uint64_t clock_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}
// Yields: the awaited device may need this very processor.
DEVICE void pause_waiting(uint32_t turn) {
  constexpr timespec A_WHILE{0, 20000};
  if (turn < TURNS_UNASKED) {
    __builtin_ia32_pause();
  } else {
    nanosleep(&A_WHILE, nullptr);
  }
}
#endif

// True if `a` is the number of pass `b` or of a later one; numbers go round.
DEVICE bool has_come_to(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)) >= 0;
}

// Returns when a word has come to this pass, or when the pass has been ended, by the host or because nobody came for
// patience_ms: then `ended` holds its number, and no later wait of it takes long.
DEVICE void await_rank(const int32_t* word, int32_t pass, int32_t* ended, int patience_ms) {
  uint64_t began = 0;
  for (uint32_t turn = 0; !has_come_to(load_from_peer(word), pass); turn++) {
    pause_waiting(turn);
    if (turn % TURNS_UNASKED != 0) continue;
    if (static_cast<uint32_t>(load_from_peer(ended)) - static_cast<uint32_t>(pass) < PASSES_ENDED) return;
    const uint64_t now = clock_ns();
    if (began == 0) began = now;
    if (now - began <= patience_ms * NANOSECONDS_A_MILLISECOND) continue;
    store_for_peer(ended, pass);
    return;
  }
}

// The words of all ranks, a row of WORDS_A_BARRIER a meeting.
template <int RANKS>
struct Words {
  int32_t* of[RANKS];
};

// Tells all other ranks that this one has come to a meeting, and waits for them: what each of them wrote in launches
// before may then be read, and what was read in the meeting before last be overwritten. For every block of the grid.
template <int RANKS>
DEVICE void wait_at_barrier(Dim3 block, Words<RANKS> words, const int32_t* pass, int32_t* ended, int rank, int barrier,
                            int patience_ms) {
  const int32_t number = *pass;
  const int row = barrier * WORDS_A_BARRIER;
  const bool tells = block.x == 0 && block.y == 0;
  int32_t* own = words.of[0];
  UNROLL
  for (int r = 0; r < RANKS; r++) {
    if (r == rank) own = words.of[r];
    if (tells && r % BLOCK == thread_id() && r != rank) store_for_peer(words.of[r] + row + rank, number);
  }
  for (int r = thread_id(); r < RANKS; r += BLOCK) {
    if (r != rank) await_rank(own + row + r, number, ended, patience_ms);
  }
  block_sync();
}

// Products that ranks computed.
template <int RANKS>
struct Parts {
  const float* of[RANKS];
};
// The sum of four elements of all parts, in the order of the ranks.
template <int RANKS>
DEVICE void sum_of_parts(Parts<RANKS> parts, size_t at, float (&sum)[4]) {
  load_from_peer(parts.of[0] + at, sum);
  UNROLL
  for (int r = 1; r < RANKS; r++) {
    float part[4];
    load_from_peer(parts.of[r] + at, part);
    UNROLL
    for (int k = 0; k < 4; k++) sum[k] += part[k];
  }
}

}  // namespace forge
