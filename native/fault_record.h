// Record of this process's work on its device, in a file mapped by it and read by the gateway once the process has
// ended, however it ended: what is stored there needs no system call and survives SIGKILL. Layout: struct Layout, read
// by src/shared/fault-record.ts.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "device.h"

namespace rocmforge {

class FaultRecord {
 public:
  static constexpr int NAME_BYTES = 64, ERROR_BYTES = 256, MOST_ARGUMENTS = 32, LAUNCHES_KEPT = 8;

  // The process's own. Until open() it is memory that nobody reads.
  static FaultRecord& instance();

  // Keeps the record in this file from now on, and stamps fatal signals. Throws DeviceError.
  void open(const std::string& path);

  // 0 starting, 1 loading, 2 self-test, 3 serving.
  void phase(uint32_t phase) { layout_->phase = phase; }
  // Called by a thread that queues steps: what it launches from now on is of this one.
  void step_begun(uint64_t step) {
    step_joined(step);
    layout_->begun_step.store(step, std::memory_order_relaxed);
  }
  // The same on a device that goes on with a step which another one has begun.
  void step_joined(uint64_t step);
  // Called by the thread that waits for them.
  void step_finished(uint64_t step) { layout_->finished_step.store(step, std::memory_order_relaxed); }
  // Called just before a launch, with Device::number and one word an argument.
  void launch(int device, const std::string& kernel, Dim3 grid, const uint64_t* words, size_t count);
  void error(const std::string& message, bool sticky);
  // Safe in a signal handler.
  void signal(int number, const void* address);

 private:
  struct Launch {
    uint64_t step;
    int32_t grid[3];
    uint16_t argument_count, device;
    char kernel[NAME_BYTES];
    uint64_t arguments[MOST_ARGUMENTS];
  };
  struct Layout {
    uint32_t magic, version, phase, sticky;
    uint32_t signal, reserved;
    uint64_t signal_address;
    // Steps from finished_step (exclusive) to begun_step were under way.
    std::atomic<uint64_t> begun_step, finished_step;
    // Launches so far: the latest is launch[(launches - 1) % LAUNCHES_KEPT], and whole.
    std::atomic<uint64_t> launches;
    uint64_t reserved_words[8];
    char error[ERROR_BYTES];
    Launch launch[LAUNCHES_KEPT];
  };
  static_assert(sizeof(Launch) == 344 && sizeof(Layout) == 376 + LAUNCHES_KEPT * sizeof(Launch) &&
                sizeof(Layout) <= 4096);

  FaultRecord();

  Layout own_{};
  // Several devices have a thread each that launches.
  std::mutex launching_;
  Layout* layout_;
};

}  // namespace rocmforge
