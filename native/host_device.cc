#include "host_device.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "device_link.h"
#include "launch_plan.h"

namespace rocmforge {
namespace {

// The layout that KERNEL in kernels/forge/host.h emits.
using HostKernelFunction = void (*)(void* const* params, Dim3 grid, int64_t first, int64_t last);
struct KernelInfo {
  HostKernelFunction run;
  int argument_count;
  const int* argument_bytes;
};

struct HostKernel : Kernel {
  HostKernelFunction run = nullptr;
};

struct BlockRange {
  HostKernelFunction run;
  void* const* params;
  Dim3 grid;
};

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A put is complete when the call returns: the link's own order keeps the two apart.
class HostPassage : public Passage {
 public:
  HostPassage(void* memory, size_t bytes) : memory_(memory), own_(memory ? 0 : bytes) {
    if (!memory_) memory_ = own_.data();
  }
  void put(const void* source, size_t bytes) override { std::memcpy(memory_, source, bytes); }
  void take(void* target, size_t bytes) override { std::memcpy(target, memory_, bytes); }

 private:
  void* memory_;
  std::vector<uint8_t> own_;
};

}  // namespace

std::string host_level() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const bool vnni = v4 && __builtin_cpu_supports("avx512vnni");
  return vnni ? "x86-64-v4-vnni" : v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "";
}

HostDevice::HostDevice(const std::string& library, int threads) : pool_(threads) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw DeviceError(std::string("cannot load the host kernels: ") + dlerror());
  // Only the lanes build exports these.
  take_error_ = reinterpret_cast<const char* (*)()>(dlsym(library_, "forge_take_error"));
  if (take_error_) {
    wave_ = reinterpret_cast<int (*)()>(dlsym(library_, "forge_wave"))();
    block_ = reinterpret_cast<int (*)()>(dlsym(library_, "forge_block"))();
  }
}

HostDevice::~HostDevice() {
  if (library_) dlclose(library_);
}

std::string HostDevice::description() const {
  return host_level() + ", " + std::to_string(pool_.threads()) + (pool_.threads() == 1 ? " thread" : " threads");
}

void* HostDevice::allocate(size_t bytes) {
  constexpr size_t ALIGNMENT = 64;
  void* address = std::aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (!address) throw DeviceError("out of memory: " + std::to_string(bytes) + " bytes");
  return address;
}

void HostDevice::release(void* address) { std::free(address); }

void HostDevice::copy_in(void* device, const void* host, size_t bytes) { std::memcpy(device, host, bytes); }

void HostDevice::copy_out(void* host, const void* device, size_t bytes) { std::memcpy(host, device, bytes); }

const Kernel* HostDevice::kernel(const std::string& name) {
  auto& entry = kernels_[name];
  if (!entry) {
    const auto* info = static_cast<const KernelInfo*>(dlsym(library_, name.c_str()));
    if (!info) {
      kernels_.erase(name);
      throw DeviceError("the host kernels hold no " + name);
    }
    auto kernel = std::make_unique<HostKernel>();
    kernel->name = name;
    kernel->argument_bytes.assign(info->argument_bytes, info->argument_bytes + info->argument_count);
    kernel->run = info->run;
    entry = std::move(kernel);
  }
  return entry.get();
}

void HostDevice::launch(const Kernel* kernel, Dim3 grid, void* const* params) {
  BlockRange range{static_cast<const HostKernel*>(kernel)->run, params, grid};
  const auto task = [](void* context, int64_t first, int64_t last) {
    const auto* r = static_cast<const BlockRange*>(context);
    r->run(r->params, r->grid, first, last);
  };
  pool_.run(static_cast<int64_t>(grid.x) * grid.y * grid.z, task, &range);
  if (const char* error = take_error_ ? take_error_() : nullptr) throw DeviceError(kernel->name + ": " + error);
}

// The processor is the device: a step has run when it has begun.
void HostDevice::begin_step(const StepWork& work) {
  std::memcpy(work.device_input, work.input, work.input_bytes);
  if (work.file.bytes() > 0) work.file.read(static_cast<uint8_t*>(work.device_input) + work.input_bytes, pool_);
  work.receives.receive();
  const auto start = Clock::now();
  work.plan->run(*this, work.counts, 0, work.plan->launches.size());
  work.sends.send();
  std::memcpy(work.output, work.device_output, work.output_bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  step_us_.push_back(microseconds_since(start));
}

double HostDevice::finish_step(const StepWork&) {
  std::lock_guard<std::mutex> lock(mutex_);
  const double microseconds = step_us_.front();
  step_us_.pop_front();
  return microseconds;
}

std::unique_ptr<Passage> HostDevice::passage_to(Device&, void* memory, size_t bytes) {
  return std::make_unique<HostPassage>(memory, bytes);
}

std::vector<double> HostDevice::time_launches(const LaunchPlan& plan, const std::vector<int>& counts) {
  std::vector<double> times(plan.launches.size(), 0.0);
  plan.each(counts, 0, plan.launches.size(), [&](const Launch& entry, Dim3 grid) {
    const auto start = Clock::now();
    launch(entry.kernel, grid, entry.params.data());
    times[&entry - plan.launches.data()] = microseconds_since(start);
  });
  return times;
}

}  // namespace rocmforge
