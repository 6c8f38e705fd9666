// One file because it is one device over one table of driver calls; how two of them reach each other lies beside it.
#include "gpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>

namespace rocmforge {
namespace {

// Pinning memory takes a driver some 0.4 ms a MiB: what copies little, as an executor that takes over does, pins
// little.
constexpr size_t STAGING_BYTES = size_t{32} << 20, SMALL_STAGING_BYTES = size_t{1} << 20;
constexpr unsigned NON_BLOCKING_STREAM = 1;  // the same bit in both drivers
constexpr int CAPTURE_RELAXED = 2;
// Threads that read what goes to the device from a file; twelve read as fast as a bus of 50 GB/s takes it.
constexpr int MOST_READERS = 16;
// Up to here a launch takes less than a copy engine's waiting for the launches before it, and theirs for it: 16 µs a
// step of two such copies on an H200, of 589.
constexpr size_t LAUNCHED_COPY_BYTES = size_t{64} << 10;

struct GpuKernel : Kernel {
  DriverHandle function = nullptr;
  unsigned threads = 0, dynamic_shared_bytes = 0;
};

// The device that the calling thread is bound to.
thread_local const GpuDevice* bound = nullptr;

DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

std::string gigabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

}  // namespace

GpuDevice::GpuDevice(std::unique_ptr<Driver> driver, int ordinal, std::map<std::string, KernelEntry> kernels, int wave,
                     int block)
    : driver_(std::move(driver)), wave_(wave), block_(block), entries_(std::move(kernels)) {
  check(driver_->init(0), "cannot initialize");
  check(driver_->open_device(ordinal), "cannot open device " + std::to_string(ordinal));
  int device = 0;
  check(driver_->device_get(&device, ordinal), "cannot find device");
  char name[256] = {};
  check(driver_->device_get_name(name, sizeof name, device), "cannot read the device's name");
  check(driver_->device_total_memory(&total_bytes_, device), "cannot read the device's memory size");
  std::string architecture;
  check(driver_->architecture(ordinal, &architecture), "cannot read the device's architecture");
  description_ = std::string(name) + ", " + architecture + ", " + gigabytes(total_bytes_);
  check(driver_->stream_create(&stream_, NON_BLOCKING_STREAM), "cannot create a stream");
  for (Flight& flight : flights_) {
    check(driver_->event_create(&flight.begun, 0), "cannot create an event");
    check(driver_->event_create(&flight.ended, 0), "cannot create an event");
  }
}

GpuDevice::~GpuDevice() {
  // Errors are of no use here: the process is ending, or the device is lost.
  driver_->bind_thread();
  driver_->stream_synchronize(stream_);
  if (signal_) driver_->host_free(signal_);
  if (signal_stream_) driver_->stream_destroy(signal_stream_);
  for (auto& [key, graph] : graphs_) driver_->graph_exec_destroy(graph);
  for (auto& [file, module] : modules_) driver_->module_unload(module);
  for (Flight& flight : flights_) {
    if (flight.input) driver_->host_free(flight.input);
    if (flight.output) driver_->host_free(flight.output);
    driver_->event_destroy(flight.begun);
    driver_->event_destroy(flight.ended);
  }
  for (auto& [mark, event] : marks_) driver_->event_destroy(event);
  for (Staging& half : staging_) {
    if (half.memory) driver_->host_free(half.memory);
    if (half.done) driver_->event_destroy(half.done);
  }
  driver_->stream_destroy(stream_);
  driver_->close_device();
}

void GpuDevice::check(DriverResult result, const std::string& what) const {
  if (result == DRIVER_SUCCESS) return;
  throw DeviceError(what + ": " + driver_->error_text(result), is_sticky(result));
}

void GpuDevice::bind() {
  if (bound == this) return;
  check(driver_->bind_thread(), "cannot bind a thread to the device");
  bound = this;
}

void GpuDevice::forget_binding() { bound = nullptr; }

void* GpuDevice::allocate(size_t bytes) {
  bind();
  DeviceAddress address = 0;
  const DriverResult result = driver_->memory_allocate(&address, bytes);
  if (result == DRIVER_OUT_OF_MEMORY) {
    throw DeviceError("out of device memory: " + gigabytes(bytes) + " wanted, " + gigabytes(free_bytes()) + " of " +
                      gigabytes(total_bytes_) + " free");
  }
  check(result, "cannot allocate " + std::to_string(bytes) + " bytes");
  // Memory that was never written must not hold NaN: kernels multiply the unused end of a KV block by 0.
  check(driver_->fill_bytes(address, 0, bytes, stream_), "cannot clear memory");
  return reinterpret_cast<void*>(address);
}

void GpuDevice::release(void* address) {
  bind();
  synchronize();
  check(driver_->memory_free(address_of(address)), "cannot free memory");
}

void* GpuDevice::allocate_pinned(size_t bytes) {
  bind();
  void* memory = nullptr;
  check(driver_->host_allocate(&memory, bytes, 0), "cannot allocate pinned memory");
  // As memory of the device's: what was never written holds no NaN.
  std::memset(memory, 0, bytes);
  return memory;
}

void GpuDevice::release_pinned(void* address) {
  bind();
  synchronize();
  check(driver_->host_free(address), "cannot free pinned memory");
}

Device::Handle GpuDevice::export_memory(void* address) {
  bind();
  // The content that another process reads must be there.
  synchronize();
  MemoryHandle exported;
  check(driver_->memory_export(&exported, address_of(address)), "cannot export memory");
  Handle handle;
  std::memcpy(handle.data(), exported.bytes, sizeof(exported.bytes));
  return handle;
}

void* GpuDevice::import_memory(const Handle& handle) {
  bind();
  MemoryHandle imported;
  std::memcpy(imported.bytes, handle.data(), sizeof(imported.bytes));
  // The one flag there is, and required; HIP had it as 0 up to some 5.x.
  constexpr unsigned LAZY_ENABLE_PEER_ACCESS = 1, FORMER_LAZY_ENABLE_PEER_ACCESS = 0;
  DeviceAddress address = 0;
  DriverResult result = driver_->memory_import(&address, imported, LAZY_ENABLE_PEER_ACCESS);
  if (result == DRIVER_INVALID_VALUE) {
    result = driver_->memory_import(&address, imported, FORMER_LAZY_ENABLE_PEER_ACCESS);
  }
  check(result, "cannot import memory");
  return reinterpret_cast<void*>(address);
}

void GpuDevice::close_memory(void* address) {
  bind();
  synchronize();
  check(driver_->memory_close(address_of(address)), "cannot close imported memory");
}

size_t GpuDevice::free_bytes() {
  bind();
  size_t free = 0, total = 0;
  check(driver_->memory_get_info(&free, &total), "cannot read how much memory is free");
  return free;
}

void GpuDevice::to_device(void* device, const void* pinned, size_t bytes) {
  check(driver_->copy_host_to_device(address_of(device), pinned, bytes, stream_), "cannot copy to the device");
  copies_in_++;
  bytes_in_ += bytes;
}

void GpuDevice::to_host(void* pinned, const void* device, size_t bytes) {
  check(driver_->copy_device_to_host(pinned, address_of(device), bytes, stream_), "cannot copy from the device");
  copies_out_++;
  bytes_out_ += bytes;
}

void GpuDevice::bring(void* device, const void* pinned, size_t bytes) {
  if (bytes > LAUNCHED_COPY_BYTES) return to_device(device, pinned, bytes);
  copy_words(device, pinned, bytes);
  copies_in_++;
  bytes_in_ += bytes;
}

void GpuDevice::take_away(void* pinned, const void* device, size_t bytes) {
  if (bytes > LAUNCHED_COPY_BYTES) return to_host(pinned, device, bytes);
  copy_words(pinned, device, bytes);
  copies_out_++;
  bytes_out_ += bytes;
}

void GpuDevice::copy_words(void* to, const void* from, size_t bytes) {
  const Kernel* const copy = kernel("copy_words");
  int count = static_cast<int>(bytes / sizeof(int32_t));
  const int threads = static_cast<int>(static_cast<const GpuKernel*>(copy)->threads);
  void* const params[] = {&from, &to, &count};
  launch(copy, {(count + threads - 1) / threads}, params);
}

CopyCounts GpuDevice::copies() const { return {copies_in_, bytes_in_, copies_out_, bytes_out_}; }

void GpuDevice::copy_in(void* device, const void* host, size_t bytes) {
  bind();
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(STAGING_BYTES, bytes - done);
    Staging& half = staging_[next_staging_];
    next_staging_ ^= 1;
    if (half.memory) check(driver_->event_synchronize(half.done), "a copy to the device failed");
    if (half.bytes < part) grow(half, part);
    std::memcpy(half.memory, static_cast<const uint8_t*>(host) + done, part);
    to_device(static_cast<uint8_t*>(device) + done, half.memory, part);
    check(driver_->event_record(half.done, stream_), "cannot record an event");
    done += part;
  }
}

void GpuDevice::grow(Staging& half, size_t bytes) {
  if (!half.done) check(driver_->event_create(&half.done, 0), "cannot create an event");
  if (half.memory) check(driver_->host_free(half.memory), "cannot free pinned memory");
  half.memory = nullptr;
  half.bytes = 0;
  const size_t room = bytes <= SMALL_STAGING_BYTES ? SMALL_STAGING_BYTES : STAGING_BYTES;
  void* memory = nullptr;
  check(driver_->host_allocate(&memory, room, 0), "cannot allocate pinned memory");
  half.memory = static_cast<uint8_t*>(memory);
  half.bytes = room;
}

void GpuDevice::copy_out(void* host, const void* device, size_t bytes) {
  bind();
  to_host(host, device, bytes);
  synchronize();
}

const Kernel* GpuDevice::kernel(const std::string& name) {
  bind();
  auto& known = kernels_[name];
  if (known) return known.get();
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) throw DeviceError("no code object holds the kernel " + name);
  DriverHandle& module = modules_[entry->second.file];
  if (!module) {
    std::ifstream stream(entry->second.file, std::ios::binary);
    const std::vector<char> image((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (image.empty()) throw DeviceError("cannot read " + entry->second.file);
    check(driver_->module_load_data(&module, image.data()), "cannot load " + entry->second.file);
  }
  auto kernel = std::make_unique<GpuKernel>();
  kernel->name = name;
  kernel->threads = entry->second.threads > 0 ? entry->second.threads : block_;
  kernel->dynamic_shared_bytes = entry->second.dynamic_shared_bytes;
  check(driver_->module_get_function(&kernel->function, module, name.c_str()),
        entry->second.file + " holds no kernel " + name);
  // Beside the LDS of its own, of which the driver counts both.
  if (kernel->dynamic_shared_bytes > 0) {
    check(driver_->allow_shared_bytes(kernel->function, kernel->dynamic_shared_bytes), "cannot launch " + name);
  }
  kernel->argument_bytes = entry->second.argument_bytes;
  known = std::move(kernel);
  return known.get();
}

void GpuDevice::launch(const Kernel* kernel, Dim3 grid, void* const* params) {
  const auto* gpu_kernel = static_cast<const GpuKernel*>(kernel);
  check_launch(driver_->launch_kernel(gpu_kernel->function, grid.x, grid.y, grid.z, gpu_kernel->threads, 1, 1,
                                      gpu_kernel->dynamic_shared_bytes, stream_, const_cast<void**>(params), nullptr),
               kernel);
}

void GpuDevice::launch_behind(const Kernel* kernel, Dim3 grid, void* const* params) {
  const auto* gpu_kernel = static_cast<const GpuKernel*>(kernel);
  const unsigned blocks[3] = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                              static_cast<unsigned>(grid.z)};
  check_launch(driver_->launch_behind(gpu_kernel->function, blocks, gpu_kernel->threads,
                                      gpu_kernel->dynamic_shared_bytes, stream_, const_cast<void**>(params)),
               kernel);
}

void GpuDevice::check_launch(DriverResult result, const Kernel* kernel) const {
  if (result != DRIVER_SUCCESS) check(result, "cannot launch " + kernel->name);
}

void GpuDevice::synchronize() {
  bind();
  check(driver_->stream_synchronize(stream_), "the device failed");
}

void GpuDevice::set_mark(int mark) {
  DriverHandle& event = marks_[mark];
  if (!event) check(driver_->event_create(&event, 0), "cannot create an event");
  check(driver_->event_record(event, stream_), "cannot record an event");
}

void GpuDevice::wait_for_mark(int mark) {
  const auto found = marks_.find(mark);
  if (found != marks_.end()) check(driver_->event_synchronize(found->second), "the device failed");
}

void GpuDevice::reserve(size_t input_bytes, size_t output_bytes) {
  bind();
  for (Flight& flight : flights_) {
    hold(&flight.input, &flight.input_bytes, input_bytes);
    hold(&flight.output, &flight.output_bytes, output_bytes);
  }
}

ThreadPool& GpuDevice::readers() {
  if (readers_) return *readers_;
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  try {
    // Processes that a load has begun want processors, too, and a thread that waits for one holds up all.
    readers_ = std::make_unique<ThreadPool>(std::clamp(3 * processors / 4 - 1, 1, MOST_READERS));
  } catch (const ThreadLimit&) {
    readers_ = std::make_unique<ThreadPool>(1);
  }
  return *readers_;
}

void GpuDevice::hold(uint8_t** pinned, size_t* have, size_t need) {
  if (*have >= need) return;
  if (*pinned) check(driver_->host_free(*pinned), "cannot free pinned memory");
  *pinned = nullptr;
  void* memory = nullptr;
  check(driver_->host_allocate(&memory, need, 0), "cannot allocate pinned memory");
  *pinned = static_cast<uint8_t*>(memory);
  *have = need;
}

GpuDevice::GraphKey GpuDevice::key_of(const LaunchPlan& plan, const std::vector<int>& counts, size_t first) {
  GraphKey key(&plan, plan.graph_key(counts));
  key.second.push_back(static_cast<int>(first));
  return key;
}

void GpuDevice::capture(const LaunchPlan& plan, const std::vector<int>& counts) {
  bind();
  // A graph's launches could not be logged.
  if (plan.is_logged()) return;
  plan.each_segment(counts, [&](size_t first, size_t last, bool may_capture) {
    const GraphKey key = key_of(plan, counts, first);
    if (!may_capture || graphs_.count(key) > 0) return;
    graphs_[key] = captured(plan, counts, first, last);
  });
}

DriverHandle GpuDevice::captured(const LaunchPlan& plan, const std::vector<int>& counts, size_t first, size_t last) {
  check(driver_->stream_begin_capture(stream_, CAPTURE_RELAXED), "cannot begin a capture");
  DriverHandle graph = nullptr;
  try {
    plan.run(*this, counts, first, last);
  } catch (...) {
    // The stream must not stay in capture.
    if (driver_->stream_end_capture(stream_, &graph) == DRIVER_SUCCESS && graph) driver_->graph_destroy(graph);
    throw;
  }
  check(driver_->stream_end_capture(stream_, &graph), "cannot end a capture");
  DriverHandle executable = nullptr;
  const DriverResult instantiated = driver_->graph_instantiate(&executable, graph, 0);
  const DriverResult destroyed = driver_->graph_destroy(graph);
  check(instantiated, "cannot instantiate a graph");
  graphs_instantiated_++;
  check(destroyed, "cannot release a graph");
  return executable;
}

void GpuDevice::forget(const LaunchPlan& plan) {
  // Errors are of no use here: the memory of a device that failed goes with its process.
  driver_->bind_thread();
  driver_->stream_synchronize(stream_);
  for (auto it = graphs_.lower_bound(GraphKey(&plan, {})); it != graphs_.end() && it->first.first == &plan;) {
    driver_->graph_exec_destroy(it->second);
    it = graphs_.erase(it);
  }
}

void GpuDevice::run_launches(const StepWork& work) {
  const LaunchPlan& plan = *work.plan;
  if (!work.recurring) return plan.run(*this, work.counts, 0, plan.launches.size());
  plan.run(*this, work.counts, 0, plan.capture_from);
  plan.each_segment(work.counts, [&](size_t first, size_t last, bool) {
    const auto found = graphs_.find(key_of(plan, work.counts, first));
    if (found == graphs_.end()) return plan.run(*this, work.counts, first, last);
    const std::vector<uint64_t> counts(work.counts.begin(), work.counts.end());
    FaultRecord::instance().launch(number, "graph", {}, counts.data(), counts.size());
    check(driver_->graph_launch(found->second, stream_), "cannot launch a graph");
  });
}

void GpuDevice::queue_step(const StepWork& work, Flight& flight) {
  const size_t input_bytes = work.input_bytes + work.file.bytes();
  hold(&flight.input, &flight.input_bytes, input_bytes);
  hold(&flight.output, &flight.output_bytes, work.output_bytes);
  std::memcpy(flight.input, work.input, work.input_bytes);
  if (work.file.bytes() > 0) work.file.read(flight.input + work.input_bytes, readers());
  const bool receives = work.receives.link != nullptr;
  // Waits for another device do not count as its time.
  if (!receives) check(driver_->event_record(flight.begun, stream_), "cannot record an event");
  if (input_bytes > 0) bring(work.device_input, flight.input, input_bytes);
  work.receives.receive();
  if (receives) check(driver_->event_record(flight.begun, stream_), "cannot record an event");
  run_launches(work);
  work.sends.send();
  if (work.output_bytes > 0) take_away(flight.output, work.device_output, work.output_bytes);
  check(driver_->event_record(flight.ended, stream_), "cannot record an event");
}

void GpuDevice::begin_step(const StepWork& work) {
  bind();
  Flight* flight = nullptr;
  {
    std::unique_lock<std::mutex> lock(flight_mutex_);
    flight_free_.wait(lock, [this] { return steps_begun_ - steps_finished_ < STEPS_IN_FLIGHT; });
    flight = &flights_[steps_begun_ % STEPS_IN_FLIGHT];
  }
  try {
    queue_step(work, *flight);
  } catch (...) {
    // A step that could not be queued was never begun: the next one takes its memory, once nothing of it runs any more.
    driver_->stream_synchronize(stream_);
    throw;
  }
  std::lock_guard<std::mutex> lock(flight_mutex_);
  steps_begun_++;
}

double GpuDevice::finish_step(const StepWork& work) {
  Flight& flight = flights_[steps_finished_ % STEPS_IN_FLIGHT];
  float milliseconds = 0;
  try {
    bind();
    check(driver_->event_synchronize(flight.ended), "the device failed in a step");
    check(driver_->event_elapsed_ms(&milliseconds, flight.begun, flight.ended), "cannot read a step's time");
    if (work.output_bytes > 0) std::memcpy(work.output, flight.output, work.output_bytes);
  } catch (...) {
    // It has failed, and that ends it: who waits for its place must not wait for ever. What it queued may still use its
    // memory.
    driver_->stream_synchronize(stream_);
    step_is_over();
    throw;
  }
  step_is_over();
  return milliseconds * 1e3;
}

void GpuDevice::step_is_over() {
  {
    std::lock_guard<std::mutex> lock(flight_mutex_);
    steps_finished_++;
  }
  flight_free_.notify_all();
}

std::vector<double> GpuDevice::time_launches(const LaunchPlan& plan, const std::vector<int>& counts) {
  bind();
  struct Timed {
    size_t index;
    DriverHandle begun, ended;
  };
  std::vector<Timed> timed;
  std::vector<double> times(plan.launches.size(), 0.0);
  plan.each(counts, 0, plan.launches.size(), [&](const Launch& entry, Dim3 grid) {
    if (entry.on_host) {
      synchronize();
      const auto begun = std::chrono::steady_clock::now();
      plan.host->launch(entry.kernel, grid, entry.params.data());
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begun;
      times[&entry - plan.launches.data()] = taken.count();
      return;
    }
    Timed one{static_cast<size_t>(&entry - plan.launches.data()), nullptr, nullptr};
    check(driver_->event_create(&one.begun, 0), "cannot create an event");
    check(driver_->event_create(&one.ended, 0), "cannot create an event");
    check(driver_->event_record(one.begun, stream_), "cannot record an event");
    launch(entry.kernel, grid, entry.params.data());
    check(driver_->event_record(one.ended, stream_), "cannot record an event");
    timed.push_back(one);
  });
  synchronize();
  for (const Timed& one : timed) {
    float milliseconds = 0;
    check(driver_->event_elapsed_ms(&milliseconds, one.begun, one.ended), "cannot read a launch's time");
    times[one.index] = milliseconds * 1e3;
    check(driver_->event_destroy(one.begun), "cannot release an event");
    check(driver_->event_destroy(one.ended), "cannot release an event");
  }
  return times;
}

}  // namespace rocmforge
