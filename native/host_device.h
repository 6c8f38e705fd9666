// The embedded default: kernels built as C++ with WAVE = 1 and BLOCK = 1, blocks spread over a thread pool. It also
// loads the lanes build of the tests, which simulates larger blocks, says so itself, and finds mistakes as it runs.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "device.h"
#include "thread_pool.h"

namespace rocmforge {

// The best instruction set level of this processor that kernels are built for: "x86-64-v4-vnni" (with the 8-bit dot
// product of AVX-512), "x86-64-v4" or "x86-64-v3"; empty when it has none of them.
std::string host_level();

class HostDevice : public Device {
 public:
  // library: path of the shared object that tools/build-kernels.mjs made.
  HostDevice(const std::string& library, int threads);
  ~HostDevice() override;

  std::string description() const override;
  int wave() const override { return wave_; }
  int block() const override { return block_; }
  void* allocate(size_t bytes) override;
  void release(void* address) override;
  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  const Kernel* kernel(const std::string& name) override;
  void launch(const Kernel* kernel, Dim3 grid, void* const* params) override;
  void synchronize() override {}
  void begin_step(const StepWork& work) override;
  double finish_step(const StepWork& work) override;
  bool can_reach(Device&) override { return true; }
  void signal(void* address, int32_t value) override {
    __atomic_store_n(static_cast<int32_t*>(address), value, __ATOMIC_RELEASE);
  }
  std::unique_ptr<Passage> passage_to(Device& other, void* memory, size_t bytes) override;
  std::vector<double> time_launches(const LaunchPlan& plan, const std::vector<int>& counts) override;

 private:
  void* library_ = nullptr;
  int wave_ = 1, block_ = 1;
  const char* (*take_error_)() = nullptr;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  // Microseconds of the steps begun and not finished.
  std::mutex mutex_;
  std::deque<double> step_us_;
  ThreadPool pool_;
};

}  // namespace rocmforge
