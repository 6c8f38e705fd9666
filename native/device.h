// Interface of a device for the executor, implemented once a driver; src/executor/device/addon.ts describes the part
// that JavaScript sees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "file_ranges.h"

namespace rocmforge {

// A failure of the device or its driver. `sticky`: nothing on this device can be trusted any more in this process.
struct DeviceError : std::runtime_error {
  explicit DeviceError(const std::string& message, bool is_sticky = false)
      : std::runtime_error(message), sticky(is_sticky) {}
  bool sticky;
};

struct Dim3 {
  int x = 1, y = 1, z = 1;
};

// A kernel that was found in a code object, with the size of each of its arguments in bytes.
struct Kernel {
  std::string name;
  std::vector<int> argument_bytes;
};

struct LaunchPlan;
class DeviceLink;
class Passage;

// Data that a step receives from another device before its launches, or sends to one behind them.
struct Transfer {
  DeviceLink* link = nullptr;  // null: nothing
  void* address = nullptr;
  size_t bytes = 0;
  uint64_t message = 0;  // its number, of what is received

  void receive() const;
  void send() const;
  mutable bool done = false;
};

// One step, or one device's part of it: a plan and what crosses the bus for it.
struct StepWork {
  const LaunchPlan* plan = nullptr;
  // The gateway's number of it; 0 for what is no step.
  uint64_t step = 0;
  // Grids follow these counts.
  std::vector<int> counts;
  // The counts are those of a class of steps that come again: it runs as the graph captured for them, where there is
  // one.
  bool recurring = false;
  void* device_input = nullptr;
  const uint8_t* input = nullptr;
  size_t input_bytes = 0;
  // Goes to the device behind the input.
  FileRanges file;
  const void* device_output = nullptr;
  uint8_t* output = nullptr;
  size_t output_bytes = 0;
  Transfer receives, sends;

  // It has failed: who waits for what it was to send fails, too.
  void give_up() const;
};

// Bytes that crossed the bus since the device was opened.
struct CopyCounts {
  uint64_t in = 0, in_bytes = 0, out = 0, out_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Name of the device, for people to read.
  virtual std::string description() const = 0;
  // Lanes a wave and threads a block that the kernels were built for.
  virtual int wave() const = 0;
  virtual int block() const = 0;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* address) = 0;
  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;

  // An allocation as another process imports it: this one must live as long. The host has its own ways.
  using Handle = std::array<uint8_t, 64>;
  virtual Handle export_memory(void*) { throw DeviceError("memory of the host is not exported"); }
  virtual void* import_memory(const Handle&) { throw DeviceError("memory of the host is not imported"); }
  // An address that import_memory returned.
  virtual void close_memory(void*) {}

  // Memory of the host that launches read and write at the same address. The host's own is.
  virtual void* allocate_pinned(size_t bytes) { return allocate(bytes); }
  virtual void release_pinned(void* address) { release(address); }

  // Throws DeviceError when no code object holds it. Valid as long as the device is.
  virtual const Kernel* kernel(const std::string& name) = 0;
  // params[i] points at the storage of argument i.
  virtual void launch(const Kernel* kernel, Dim3 grid, void* const* params) = 0;
  // The same right behind another launch, with nothing between them.
  virtual void launch_behind(const Kernel* kernel, Dim3 grid, void* const* params) { launch(kernel, grid, params); }
  // Returns when everything launched has ended.
  virtual void synchronize() = 0;
  // Marks what has been launched so far; wait_for_mark returns when that has ended, at once where nothing was marked
  // so.
  virtual void set_mark(int) {}
  virtual void wait_for_mark(int) { synchronize(); }

  // Queues a step behind those begun before it; finish_step waits for the oldest one not finished, fills its output and
  // returns its microseconds on the device. The two may be called by different threads. At most STEPS_IN_FLIGHT.
  static constexpr int STEPS_IN_FLIGHT = 4;
  virtual void begin_step(const StepWork& work) = 0;
  virtual double finish_step(const StepWork& work) = 0;
  // Takes the memory that steps of so many bytes go through. Where steps of several devices wait for each other it must
  // be there before them: a driver may let an allocation wait for what runs.
  virtual void reserve(size_t, size_t) {}
  // Captures what the plan launches for these counts, so that recurring steps of them run as one graph. It comes
  // between steps: none captures on its own, so that the memory that graphs take is known when a first load ends.
  virtual void capture(const LaunchPlan&, const std::vector<int>&) {}
  // Graphs instantiated since the device was opened.
  virtual uint64_t graphs_instantiated() const { return 0; }
  // Gives up what is kept for a plan that will not run again. Never throws: it is called when things have failed, too.
  virtual void forget(const LaunchPlan&) {}
  // Microseconds of each launch of the plan, run once for these counts; 0 for those left out.
  virtual std::vector<double> time_launches(const LaunchPlan& plan, const std::vector<int>& counts) = 0;

  // True if this device can copy to the memory of another one, which is of the same kind; from then on it may.
  virtual bool can_reach(Device& other) = 0;
  // Stores a word in its memory while launches run, and returns when it is there. By any thread.
  virtual void signal(void* address, int32_t value) = 0;
  // A passage to another device of the same kind, through its memory where it can be reached, or where that is null
  // through pinned memory of the host.
  virtual std::unique_ptr<Passage> passage_to(Device& other, void* memory, size_t bytes) = 0;

  // Bytes free and in all; 0 where memory is the host's.
  virtual size_t free_bytes() { return 0; }
  virtual size_t total_bytes() { return 0; }
  virtual CopyCounts copies() const { return {}; }

  // Which of the devices of this process it is, counted from 1; 0: it is the only one.
  int number = 0;
};

}  // namespace rocmforge
