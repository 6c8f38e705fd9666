// Runs ranges of blocks on a fixed number of threads, the caller's included.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rocmforge {

// The system gave fewer threads than a pool was to have.
struct ThreadLimit : std::runtime_error {
  ThreadLimit(int wanted, int started)
      : std::runtime_error("the system gave " + std::to_string(started) + " of " + std::to_string(wanted) +
                           " threads") {}
};

class ThreadPool {
 public:
  // Throws ThreadLimit, with no thread left.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(context, first, last) for contiguous ranges that cover [0, total), and returns when all have ended. It
  // waits for ranges, not for threads: one that another process keeps from running holds nobody up.
  using Task = void (*)(void* context, int64_t first, int64_t last);
  void run(int64_t total, Task task, void* context);

 private:
  void end();
  void work();
  void serve();

  std::vector<std::thread> workers_;
  // State that a thread needs to take a range, in one word, so that a thread that comes late reads nothing that may
  // already belong to the next run: how many ranges there are, and which is next.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<uint32_t> generation_{0};  // runs so far: what idle threads wait on
  std::atomic<int32_t> unfinished_{0};   // ranges of this run
  std::atomic<bool> stopping_{false};
  // Ranges of this run; they change only while no range is unfinished.
  int64_t total_ = 0, range_ = 1;
  Task task_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace rocmforge
