// The one thread that talks to the device. Steps run there in the order they were queued, so a step can wait behind the
// one that runs, and the event loop never waits for either.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rocmforge {

class DeviceThread {
 public:
  DeviceThread();
  // Runs what is queued, then ends.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  void enqueue(std::function<void()> job);
  // Queues the job and waits for its end. Exceptions reach the caller.
  void run(const std::function<void()>& job);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rocmforge
