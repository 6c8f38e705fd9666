// Runs ranges of blocks on a fixed number of threads, the caller's included.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace rocmforge {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(context, first, last) for contiguous ranges that cover [0, total), and returns when all have ended.
  using Task = void (*)(void* context, int64_t first, int64_t last);
  void run(int64_t total, Task task, void* context);

 private:
  void work();
  void serve();

  std::vector<std::thread> workers_;
  std::atomic<uint32_t> generation_{0};
  std::atomic<int32_t> busy_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopping_{false};
  int64_t total_ = 0, chunk_ = 1;
  Task task_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace rocmforge
