#include "device_thread.h"

#include <future>

namespace rocmforge {

DeviceThread::DeviceThread() : thread_([this] { serve(); }) {}

DeviceThread::~DeviceThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DeviceThread::enqueue(std::function<void()> job) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void DeviceThread::run(const std::function<void()>& job) {
  std::packaged_task<void()> task(job);
  std::future<void> done = task.get_future();
  enqueue([&task] { task(); });
  done.get();
}

void DeviceThread::serve() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace rocmforge
