// The scheduler of the lanes target, compiled once for each library: runs a block's fibers, completes what they wait
// for, keeps the block's LDS and the first error.
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lanes.h"

namespace forge::lanes {

__thread Block* own_block = nullptr;

namespace {

// Stacks begin at addresses that differ in the bits that choose a set of a cache: 256 stacks a power of two apart would
// share a few sets, and each switch would miss.
constexpr size_t PAGE_BYTES = 4 << 10, LINE_BYTES = 64;
constexpr size_t STACK_BYTES = 33 * PAGE_BYTES, GUARD_BYTES = PAGE_BYTES;
constexpr size_t stack_offset(int fiber) { return fiber * 7 * LINE_BYTES % PAGE_BYTES; }

#if defined(FORGE_TILE_DOTS) || FORGE_WAVE == 64
constexpr size_t LDS_BYTES = 64 << 10;  // AMD's alone
#else
constexpr size_t LDS_BYTES = 48 << 10;
#endif

struct LdsArray {
  const void* site;
  std::unique_ptr<char[]> memory;
  std::vector<Access> accesses;
};

struct Scheduler : Block {
  unsigned launches = 0, random = 1;
  int order[BLOCK];  // in which fibers run
  char* stacks = nullptr;
  std::vector<LdsArray> lds;
  size_t lds_bytes = 0;
  std::string error;
  std::string taken;
  void (*entry)(void*) = nullptr;
  void* body = nullptr;

  ~Scheduler() {
    own_block = nullptr;
    if (stacks) munmap(stacks, STACK_BYTES * BLOCK);
  }
  void prepare();
  void run_fibers();
  int count(State state, int first, int threads) const;
  bool finish_shuffle(int first);
  bool finish_together(int first);
  void finish_barrier();
  void run();

  bool failed() const { return !error.empty(); }
  void fail(const std::string& message) {
    if (!failed()) error = message;
  }
};

Scheduler& make_scheduler() {
  thread_local const std::unique_ptr<Scheduler> scheduler = std::make_unique<Scheduler>();
  own_block = scheduler.get();
  return *scheduler;
}
Scheduler& own() { return own_block ? static_cast<Scheduler&>(*own_block) : make_scheduler(); }

void fiber_main() {
  own().entry(own().body);
  wait_at(State::DONE, 0);
  std::abort();  // a thread that has ended is not continued
}

void Scheduler::prepare() {
  if (!stacks) {
    void* memory = mmap(nullptr, STACK_BYTES * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    stacks = static_cast<char*>(memory);
    for (int i = 0; i < BLOCK; i++) mprotect(stacks + STACK_BYTES * i, GUARD_BYTES, PROT_NONE);
  }
  for (int i = 0; i < BLOCK; i++) {
    // Stack that forge_switch pops: six registers, then the address it returns to. The stack is aligned as after a
    // call.
    void** top = reinterpret_cast<void**>(stacks + STACK_BYTES * (i + 1) - stack_offset(i)) - 2;
    top[0] = reinterpret_cast<void*>(fiber_main);
    for (int r = 1; r <= 6; r++) top[-r] = nullptr;
    order[i] = launches % 3 == 1 ? BLOCK - 1 - i : i;
    fibers[i] = Fiber{top - 6, State::RUNNING, 0, 0, 0, 0, nullptr, nullptr};
  }
  lds.clear();
  lds_bytes = 0;
  interval = 0;
}

// Runs every fiber that can run, in this launch's order.
void Scheduler::run_fibers() {
  if (launches % 3 == 2) {
    for (int i = BLOCK - 1; i > 0; i--) {
      random = random * 1664525u + 1013904223u;
      std::swap(order[i], order[(random >> 8) % (i + 1)]);
    }
  }
  for (int i : order) {
    if (fibers[i].state != State::RUNNING) continue;
    current = i;
    forge_switch(&scheduler, fibers[i].stack_pointer);
    if (failed()) return;
  }
}

int Scheduler::count(State state, int first, int threads) const {
  int n = 0;
  for (int i = first; i < first + threads; i++) n += fibers[i].state == state;
  return n;
}

// Completes the shuffle that the wave from thread `first` on waits at. Returns whether it waits at one.
bool Scheduler::finish_shuffle(int first) {
  Fiber* wave = fibers + first;
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
bool Scheduler::finish_together(int first) {
  Fiber* wave = fibers + first;
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

void Scheduler::finish_barrier() {
  const int waiting = count(State::AT_BARRIER, 0, BLOCK);
  bool same = waiting == BLOCK;
  for (const Fiber& fiber : fibers) same &= fiber.site == fibers[0].site;
  if (!same) return fail("a barrier that " + std::to_string(waiting) + " of 256 threads reach, or at different places");
  for (Fiber& fiber : fibers) fiber.state = State::RUNNING;
  interval++;
}

void Scheduler::run() {
  prepare();
  for (;;) {
    run_fibers();
    bool waves_go_on = false;
    for (int first = 0; first < BLOCK && !failed(); first += WAVE) {
      waves_go_on |= finish_shuffle(first) || finish_together(first);
    }
    if (failed()) return;
    if (waves_go_on) continue;
    if (count(State::DONE, 0, BLOCK) == BLOCK) return;
    finish_barrier();
    if (failed()) return;
  }
}

}  // namespace

void run_all(void (*entry)(void*), void* body) noexcept {
  Scheduler& scheduler = own();
  if (scheduler.failed()) return;
  scheduler.entry = entry;
  scheduler.body = body;
  scheduler.run();
}

void report_misaligned(size_t alignment) noexcept {
  own().fail("an access of " + std::to_string(alignment) + " bytes at an address that is not a multiple of them");
}

void report_race(const char* what) noexcept {
  own().fail(std::string("LDS race: thread ") + std::to_string(own().current) + " " + what +
             " what another thread used since the last barrier");
}

void report_outside(int64_t index, int count) noexcept {
  own().fail("LDS index " + std::to_string(index) + " outside 0 .. " + std::to_string(count - 1));
}

Lds find_lds(const void* site, size_t bytes, int count) noexcept {
  Scheduler& block = own();
  for (LdsArray& array : block.lds) {
    if (array.site == site) return {array.memory.get(), array.accesses.data()};
  }
  block.lds_bytes += bytes;
  if (block.lds_bytes > LDS_BYTES) block.fail("more than " + std::to_string(LDS_BYTES >> 10) + " KiB of LDS");
  block.lds.push_back({site, std::make_unique<char[]>(bytes), std::vector<Access>(count)});
  std::memset(block.lds.back().memory.get(), 0xff, bytes);
  return {block.lds.back().memory.get(), block.lds.back().accesses.data()};
}

}  // namespace forge::lanes

// Ends with a jump, because the processor would predict that a `ret` returns to the fiber it switches from.
asm(R"(
.text
.hidden forge_switch
.globl forge_switch
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
  pop %rcx
  jmp *%rcx
)");

// Queries of native/: the sizes, and the error of the launch that just ended.
extern "C" FORGE_EXPORT int forge_wave() { return WAVE; }
extern "C" FORGE_EXPORT int forge_block() { return BLOCK; }
extern "C" FORGE_EXPORT const char* forge_take_error() {
  forge::lanes::Scheduler& block = forge::lanes::own();
  block.launches++;
  block.taken.swap(block.error);
  block.error.clear();
  return block.taken.empty() ? nullptr : block.taken.c_str();
}
