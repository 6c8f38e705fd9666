#include "thread_pool.h"

#include <algorithm>

namespace rocmforge {
namespace {

// A decode step is a few hundred launches of some 10 to 500 µs: sleeping between them would cost more than the work.
// After this many pauses (about 50 µs) a thread sleeps, so that an idle executor uses no processor time and a machine
// shared with others does not lose a core to waiting.
constexpr int SPINS = 1000;
// Ranges a thread gets: enough to even out the end, few enough that each stays one contiguous piece of memory.
constexpr int RANGES_PER_THREAD = 8;

template <class Value>
void wait_while_equal(const std::atomic<Value>& atomic, Value value) {
  for (int i = 0; i < SPINS; i++) {
    if (atomic.load(std::memory_order_acquire) != value) return;
    __builtin_ia32_pause();
  }
  atomic.wait(value, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { serve(); });
  } catch (const std::exception&) {
    // No destructor runs for an object whose constructor throws, and a thread that was not joined ends the process.
    const int started = this->threads();
    end();
    throw ThreadLimit(threads, started);
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  stopping_ = true;
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work() {
  for (;;) {
    const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
    const auto next = static_cast<uint32_t>(ticket), count = static_cast<uint32_t>(ticket >> 32);
    if (next >= count) return;
    const int64_t first = next * range_;
    task_(context_, first, std::min(total_, first + range_));
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadPool::serve() {
  uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    work();
  }
}

void ThreadPool::run(int64_t total, Task task, void* context) {
  if (total <= 1 || workers_.empty()) {
    task(context, 0, total);
    return;
  }
  total_ = total;
  range_ = std::max<int64_t>(1, total / (threads() * RANGES_PER_THREAD));
  task_ = task;
  context_ = context;
  const int64_t count = (total + range_ - 1) / range_;
  unfinished_.store(static_cast<int32_t>(count), std::memory_order_relaxed);
  ticket_.store(static_cast<uint64_t>(count) << 32, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work();
  for (int32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    wait_while_equal(unfinished_, left);
  }
}

}  // namespace rocmforge
