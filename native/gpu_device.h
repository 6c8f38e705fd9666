// A GPU behind the Driver table: one context, one stream. Steps go to the stream as they come, so that the next one is
// queued while one runs, and recurring ones as captured graphs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "device.h"
#include "driver.h"
#include "launch_plan.h"

namespace rocmforge {

// A kernel as the manifest of a code object describes it.
struct KernelEntry {
  std::string file;  // path of the code object
  std::vector<int> argument_bytes;
  int threads = 0;  // of a block; 0: the device's
  int dynamic_shared_bytes = 0;
};

class GpuDevice : public Device {
 public:
  // Throws DeviceError with the driver's own words.
  GpuDevice(std::unique_ptr<Driver> driver, int ordinal, std::map<std::string, KernelEntry> kernels, int wave,
            int block);
  ~GpuDevice() override;

  std::string description() const override { return description_; }
  int wave() const override { return wave_; }
  int block() const override { return block_; }
  void* allocate(size_t bytes) override;
  void release(void* address) override;
  Handle export_memory(void* address) override;
  void* import_memory(const Handle& handle) override;
  void close_memory(void* address) override;
  void* allocate_pinned(size_t bytes) override;
  void release_pinned(void* address) override;
  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  const Kernel* kernel(const std::string& name) override;
  void launch(const Kernel* kernel, Dim3 grid, void* const* params) override;
  void launch_behind(const Kernel* kernel, Dim3 grid, void* const* params) override;
  void synchronize() override;
  void set_mark(int mark) override;
  void wait_for_mark(int mark) override;
  void begin_step(const StepWork& work) override;
  double finish_step(const StepWork& work) override;
  bool can_reach(Device& other) override;
  void signal(void* address, int32_t value) override;
  void reserve(size_t input_bytes, size_t output_bytes) override;
  std::unique_ptr<Passage> passage_to(Device& other, void* memory, size_t bytes) override;
  void capture(const LaunchPlan& plan, const std::vector<int>& counts) override;
  uint64_t graphs_instantiated() const override { return graphs_instantiated_; }
  void forget(const LaunchPlan& plan) override;
  std::vector<double> time_launches(const LaunchPlan& plan, const std::vector<int>& counts) override;
  size_t free_bytes() override;
  size_t total_bytes() override { return total_bytes_; }
  CopyCounts copies() const override;

 private:
  friend class GpuPassage;

  // Pinned memory and events of a step under way.
  struct Flight {
    uint8_t *input = nullptr, *output = nullptr;
    size_t input_bytes = 0, output_bytes = 0;
    DriverHandle begun = nullptr, ended = nullptr;
  };
  // A segment of a plan, by its first launch, captured for the counts that the plan's launches depend on.
  using GraphKey = std::pair<const LaunchPlan*, std::vector<int>>;

  void check(DriverResult result, const std::string& what) const;
  // Each thread that calls the driver must first be bound to the device.
  void check_launch(DriverResult result, const Kernel* kernel) const;
  void bind();
  // The calling thread was bound to a device by other means.
  static void forget_binding();
  void hold(uint8_t** pinned, size_t* have, size_t need);
  ThreadPool& readers();
  void to_device(void* device, const void* pinned, size_t bytes);
  void to_host(void* pinned, const void* device, size_t bytes);
  // The same within a step, by a launch where bytes are few.
  void bring(void* device, const void* pinned, size_t bytes);
  void take_away(void* pinned, const void* device, size_t bytes);
  void copy_words(void* to, const void* from, size_t bytes);
  static GraphKey key_of(const LaunchPlan& plan, const std::vector<int>& counts, size_t first);
  DriverHandle captured(const LaunchPlan& plan, const std::vector<int>& counts, size_t first, size_t last);
  void run_launches(const StepWork& work);
  void queue_step(const StepWork& work, Flight& flight);
  void step_is_over();

  std::unique_ptr<Driver> driver_;
  std::string description_;
  int wave_, block_;
  size_t total_bytes_ = 0;
  DriverHandle stream_ = nullptr;
  // Work that must not wait for the other stream's, and the pinned word that it sends.
  DriverHandle signal_stream_ = nullptr;
  int32_t* signal_ = nullptr;
  std::mutex signal_mutex_;
  std::map<std::string, KernelEntry> entries_;
  std::map<std::string, DriverHandle> modules_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::map<GraphKey, DriverHandle> graphs_;
  std::atomic<uint64_t> graphs_instantiated_{0};

  // Large copies go through two halves of pinned memory in turn.
  struct Staging {
    uint8_t* memory = nullptr;
    size_t bytes = 0;
    DriverHandle done = nullptr;
  } staging_[2];
  // Gives a half room for so many bytes. Nothing reads it.
  void grow(Staging& half, size_t bytes);
  int next_staging_ = 0;

  std::map<int, DriverHandle> marks_;  // events

  Flight flights_[STEPS_IN_FLIGHT];
  // Those of steps that have a file; null before the first.
  std::unique_ptr<ThreadPool> readers_;
  std::mutex flight_mutex_;
  std::condition_variable flight_free_;
  uint64_t steps_begun_ = 0, steps_finished_ = 0;

  std::atomic<uint64_t> copies_in_{0}, bytes_in_{0}, copies_out_{0}, bytes_out_{0};
};

}  // namespace rocmforge
