// The lanes target, for tests alone: every thread of a block of 256 is a fiber with its own stack, in waves of 32 or 64
// (-DFORGE_WAVE). Fibers run in forward, reverse and random order, one order a launch in turn, and what only hardware
// would punish is an error here:
//   - a barrier, shuffle or product of tiles that not every thread of the block or wave reaches, or reaches at
//   another place in the source;
//   - two threads using one element of LDS between the same barriers, unless both read or both add atomically;
//   - an LDS index out of bounds; LDS above what the least of the GPUs has that run the code. LDS starts as NaN.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#ifndef FORGE_WAVE
#error "build with -DFORGE_WAVE=32 or 64"
#endif
#define WAVE FORGE_WAVE
#define BLOCK 256

namespace forge {
template <class Body>
inline void run_block(Body body);
}

#include "cpu.h"

namespace forge::lanes {

constexpr size_t STACK_BYTES = 128 << 10, GUARD_BYTES = 4 << 10;
#if defined(FORGE_TILE_DOTS)
constexpr size_t LDS_BYTES = 64 << 10;  // AMD's alone
#else
constexpr size_t LDS_BYTES = 48 << 10;
#endif
constexpr int NOBODY = -1, SEVERAL = -2, ATOMIC = -3;  // in place of a thread id

enum class State { RUNNING, AT_BARRIER, AT_SHUFFLE, TOGETHER, DONE };

// What all lanes of a wave do as one; gets each lane's operands.
using WaveOperation = void (*)(void* const* operands);

struct Fiber {
  void* stack_pointer;
  State state;
  int site;  // which barrier, shuffle or operation of the source it waits at
  int mask;
  uint32_t given, received;
  WaveOperation operation;
  void* operands;
};

// Who last wrote and read an element of LDS, and between which barriers.
struct Access {
  int writer = NOBODY, reader = NOBODY, written = -1, read = -1;
};

struct LdsArray {
  const void* site;
  std::unique_ptr<char[]> memory;
  std::vector<Access> accesses;
};

// The block that a thread runs.
struct Block {
  Fiber fibers[BLOCK];
  int current = 0;   // the fiber that runs
  int interval = 0;  // barriers passed
  unsigned launches = 0, random = 1;
  void* scheduler = nullptr;
  char* stacks = nullptr;
  std::vector<LdsArray> lds;
  size_t lds_bytes = 0;
  std::string error;
  std::string taken;
  void (*entry)(void*) = nullptr;
  void* body = nullptr;
};
// Each thread of the host has one of its own: launches of two streams run side by side, and one may wait for the other.
inline thread_local Block* own_block = nullptr;
inline Block& make_block() {
  struct Owner {
    const std::unique_ptr<Block> block = std::make_unique<Block>();
    ~Owner() {
      own_block = nullptr;
      if (block->stacks) munmap(block->stacks, STACK_BYTES * BLOCK);
    }
  };
  thread_local Owner owner;
  own_block = owner.block.get();
  return *own_block;
}
inline Block& block() { return own_block ? *own_block : make_block(); }

inline void fail(const std::string& message) {
  if (block().error.empty()) block().error = message;
}

// Saves the running context's registers on its stack and *save, and continues the one whose stack pointer is `to`.
extern "C" void forge_switch(void** save, void* to);
asm(R"(
.text
.weak forge_switch
.hidden forge_switch
.type forge_switch, @function
forge_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

inline void wait_at(State state, int site) {
  Fiber& fiber = block().fibers[block().current];
  fiber.state = state;
  fiber.site = site;
  forge_switch(&fiber.stack_pointer, block().scheduler);
}

inline uint32_t exchange(uint32_t value, int mask, int site) {
  Fiber& fiber = block().fibers[block().current];
  fiber.given = value;
  fiber.mask = mask;
  wait_at(State::AT_SHUFFLE, site);
  return fiber.received;
}

// Returns when all lanes of the wave have called it at one place and `operation` was run once for them all.
inline void run_together(WaveOperation operation, void* operands, int site) {
  Fiber& fiber = block().fibers[block().current];
  fiber.operation = operation;
  fiber.operands = operands;
  wait_at(State::TOGETHER, site);
}

inline void fiber_main() {
  block().entry(block().body);
  wait_at(State::DONE, 0);
  std::abort();  // a thread that has ended is not continued
}

inline void prepare_fibers() {
  if (!block().stacks) {
    void* memory = mmap(nullptr, STACK_BYTES * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    block().stacks = static_cast<char*>(memory);
    for (int i = 0; i < BLOCK; i++) mprotect(block().stacks + STACK_BYTES * i, GUARD_BYTES, PROT_NONE);
  }
  for (int i = 0; i < BLOCK; i++) {
    // What forge_switch pops: six registers, then the address it returns to. The stack is aligned as after a call.
    void** top = reinterpret_cast<void**>(block().stacks + STACK_BYTES * (i + 1)) - 2;
    top[0] = reinterpret_cast<void*>(fiber_main);
    for (int r = 1; r <= 6; r++) top[-r] = nullptr;
    block().fibers[i] = Fiber{top - 6, State::RUNNING, 0, 0, 0, 0, nullptr, nullptr};
  }
  block().lds.clear();
  block().lds_bytes = 0;
  block().interval = 0;
}

// Runs every fiber that can run, in this launch's order.
inline void run_fibers() {
  int order[BLOCK];
  for (int i = 0; i < BLOCK; i++) order[i] = block().launches % 3 == 1 ? BLOCK - 1 - i : i;
  if (block().launches % 3 == 2) {
    for (int i = BLOCK - 1; i > 0; i--) {
      block().random = block().random * 1664525u + 1013904223u;
      std::swap(order[i], order[(block().random >> 8) % (i + 1)]);
    }
  }
  for (int i : order) {
    if (block().fibers[i].state != State::RUNNING) continue;
    block().current = i;
    forge_switch(&block().scheduler, block().fibers[i].stack_pointer);
    if (!block().error.empty()) return;
  }
}

inline int count(State state, int first, int threads) {
  int n = 0;
  for (int i = first; i < first + threads; i++) n += block().fibers[i].state == state;
  return n;
}

// Completes the shuffle that the wave from thread `first` on waits at. Returns whether it waits at one.
inline bool finish_shuffle(int first) {
  Fiber* wave = block().fibers + first;
  const int waiting = count(State::AT_SHUFFLE, first, WAVE);
  if (waiting == 0) return false;
  bool same = waiting == WAVE;
  for (int lane = 1; lane < WAVE; lane++) same &= wave[lane].site == wave[0].site && wave[lane].mask == wave[0].mask;
  if (!same || wave[0].mask >= WAVE) {
    fail("a shuffle that " + std::to_string(waiting) + " of " + std::to_string(WAVE) +
         " lanes reach, or reach at different places or with different masks");
    return false;
  }
  for (int lane = 0; lane < WAVE; lane++) wave[lane].received = wave[lane ^ wave[lane].mask].given;
  for (int lane = 0; lane < WAVE; lane++) wave[lane].state = State::RUNNING;
  return true;
}

// Runs the operation that the wave from thread `first` on waits for. Returns whether it waits for one.
inline bool finish_together(int first) {
  Fiber* wave = block().fibers + first;
  const int waiting = count(State::TOGETHER, first, WAVE);
  if (waiting == 0) return false;
  bool same = waiting == WAVE;
  for (int lane = 1; lane < WAVE; lane++) same &= wave[lane].site == wave[0].site;
  if (!same) {
    fail("a product of tiles that " + std::to_string(waiting) + " of " + std::to_string(WAVE) +
         " lanes reach, or reach at different places");
    return false;
  }
  void* operands[WAVE];
  for (int lane = 0; lane < WAVE; lane++) operands[lane] = wave[lane].operands;
  wave[0].operation(operands);
  for (int lane = 0; lane < WAVE; lane++) wave[lane].state = State::RUNNING;
  return true;
}

inline void finish_barrier() {
  const int waiting = count(State::AT_BARRIER, 0, BLOCK);
  bool same = waiting == BLOCK;
  for (const Fiber& fiber : block().fibers) same &= fiber.site == block().fibers[0].site;
  if (!same) return fail("a barrier that " + std::to_string(waiting) + " of 256 threads reach, or at different places");
  for (Fiber& fiber : block().fibers) fiber.state = State::RUNNING;
  block().interval++;
}

inline void run_all() {
  prepare_fibers();
  for (;;) {
    run_fibers();
    bool waves_go_on = false;
    for (int first = 0; first < BLOCK && block().error.empty(); first += WAVE) {
      waves_go_on |= finish_shuffle(first) || finish_together(first);
    }
    if (!block().error.empty()) return;
    if (waves_go_on) continue;
    if (count(State::DONE, 0, BLOCK) == BLOCK) return;
    finish_barrier();
    if (!block().error.empty()) return;
  }
}

}  // namespace forge::lanes

#include "lanes_shared.h"

namespace forge {

template <class Body>
inline void run_block(Body body) {
  if (!lanes::block().error.empty()) return;
  lanes::block().entry = [](void* b) { (*static_cast<Body*>(b))(); };
  lanes::block().body = &body;
  lanes::run_all();
}

inline int thread_id() { return lanes::block().current; }
inline int thread_id_anew() { return thread_id(); }
// Real GPUs fault on a wide access that is not aligned, or round its address down; this CPU does neither.
inline void check_alignment(const void* p, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(p) % alignment == 0) return;
  lanes::fail("an access of " + std::to_string(alignment) + " bytes at an address that is not a multiple of them");
}
#define check_alignment check_alignment
inline void sync_at(int site) { lanes::wait_at(lanes::State::AT_BARRIER, site); }
inline int exchange_at(int site, int value, int mask) {
  return static_cast<int>(lanes::exchange(static_cast<uint32_t>(value), mask, site));
}
inline float exchange_at(int site, float value, int mask) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = lanes::exchange(bits, mask, site);
  std::memcpy(&value, &bits, 4);
  return value;
}

template <class T>
inline void shared_add(const lanes::Element<T>& element, T value) {
  element.store(*element.value + value, lanes::ATOMIC, "adds to");
}

// What native/ asks for: the sizes, and what went wrong in the launch that just ended.
extern "C" FORGE_EXPORT inline int __attribute__((used)) forge_wave() { return WAVE; }
extern "C" FORGE_EXPORT inline int __attribute__((used)) forge_block() { return BLOCK; }
extern "C" FORGE_EXPORT inline const char* __attribute__((used)) forge_take_error() {
  lanes::block().launches++;
  lanes::block().taken.swap(lanes::block().error);
  lanes::block().error.clear();
  return lanes::block().taken.empty() ? nullptr : lanes::block().taken.c_str();
}

}  // namespace forge

// Sites are counted, not taken from line numbers: two calls on one line differ, and so do two uses of a macro.
#define block_sync() sync_at(__COUNTER__)
#define shuffle_xor(...) exchange_at(__COUNTER__, __VA_ARGS__)
#define SHARED(type, name, count)    \
  static const char name##_site = 0; \
  const auto name = forge::lanes::shared_array<type>(count, &name##_site)
#define SIMD_SUM(variable)
#define SIMD_MAX(variable)
#define SIMD
