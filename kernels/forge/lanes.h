// The lanes target, for tests alone: every thread of a block of 256 is a fiber with its own stack, in waves of 32 or 64
// (-DFORGE_WAVE). Fibers run in forward, reverse and random order, one order a launch in turn, and what only hardware
// would punish is an error here:
//   - a barrier, shuffle or product of tiles that not every thread of the block or wave reaches, or reaches at
//   another place in the source;
//   - two threads using one element of LDS between the same barriers, unless both read or both add atomically;
//   - an LDS index out of bounds; LDS above what the least of the GPUs has that run the code. LDS starts as NaN.
#pragma once

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

enum class State { RUNNING, AT_BARRIER, AT_SHUFFLE, TOGETHER, DONE };

// Operation of a whole wave; receives each lane's operands.
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

// The part of a thread block's state that kernels use; lanes.cc holds the rest.
struct Block {
  Fiber fibers[BLOCK];
  int current = 0;   // the fiber that runs
  int interval = 0;  // barriers passed
  void* scheduler = nullptr;
};
// The block that this host thread runs. Each host thread has a block of its own: launches of two streams run side by
// side, and one may wait for the other.
extern __thread Block* own_block;
inline Block& block() { return *own_block; }

// Defined once in lanes.cc, because each of these in each kernel would take longer to compile than most kernels.
void run_all(void (*entry)(void*), void* body) noexcept;
void report_misaligned(size_t alignment) noexcept;

// Saves the running context's registers on its stack and *save, and continues the one whose stack pointer is `to`.
extern "C" void forge_switch(void** save, void* to) noexcept;

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

}  // namespace forge::lanes

#include "lanes_shared.h"

namespace forge {

template <class Body>
inline void run_block(Body body) {
  lanes::run_all([](void* b) { (*static_cast<Body*>(b))(); }, &body);
}

inline int thread_id() { return lanes::block().current; }
inline int thread_id_anew() { return thread_id(); }
// Real GPUs fault on a wide access that is not aligned, or round its address down; this CPU does neither.
inline void check_alignment(const void* p, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(p) % alignment != 0) lanes::report_misaligned(alignment);
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
