// One file because it is one JavaScript object, whose methods share how values are read and errors are thrown.
#include "device_object.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <system_error>

#include "fault_record.h"
#include "gpu_device.h"
#include "host_device.h"
#include "link_object.h"
#include "queued_step.h"

namespace rocmforge {

void* pointer(const Napi::Value& value) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(value.As<Napi::Number>().DoubleValue()));
}

namespace {

GridDim grid_dim(const Napi::Object& dim) {
  GridDim result;
  result.count_index = dim.Get("count").As<Napi::Number>();
  result.constant = dim.Get("constant").As<Napi::Number>();
  result.divisor = dim.Get("divisor").As<Napi::Number>();
  if (result.count_index < 0) return result;
  result.first = dim.Get("first").As<Napi::Number>();
  result.most = dim.Get("most").As<Napi::Number>();
  result.times = dim.Get("times").As<Napi::Number>();
  return result;
}

std::vector<int> numbers(const Napi::Value& value) {
  const Napi::Array array = value.As<Napi::Array>();
  std::vector<int> result;
  for (uint32_t i = 0; i < array.Length(); i++) result.push_back(array.Get(i).As<Napi::Number>());
  return result;
}

// Transfer to or from another device, and the link's object, which must outlive the step.
Transfer transfer(const Napi::Value& value, Napi::ObjectReference* kept) {
  Transfer result;
  if (!value.IsObject()) return result;
  const Napi::Object source = value.As<Napi::Object>();
  const Napi::Object link = source.Get("link").As<Napi::Object>();
  result.link = &Napi::ObjectWrap<LinkObject>::Unwrap(link)->link(value.Env());
  result.address = pointer(source.Get("address"));
  result.bytes = static_cast<size_t>(source.Get("bytes").As<Napi::Number>().DoubleValue());
  if (source.Has("message")) {
    result.message = static_cast<uint64_t>(source.Get("message").As<Napi::Number>().DoubleValue());
  }
  *kept = Napi::Persistent(link);
  return result;
}

std::unique_ptr<Device> open_gpu(const Napi::Object& options) {
  std::map<std::string, KernelEntry> kernels;
  const Napi::Array entries = options.Get("kernels").As<Napi::Array>();
  for (uint32_t i = 0; i < entries.Length(); i++) {
    const Napi::Object entry = entries.Get(i).As<Napi::Object>();
    KernelEntry& kernel = kernels[entry.Get("name").As<Napi::String>()];
    kernel.file = entry.Get("file").As<Napi::String>();
    kernel.argument_bytes = numbers(entry.Get("argumentBytes"));
    if (entry.Has("threads")) kernel.threads = entry.Get("threads").As<Napi::Number>();
    if (entry.Has("dynamicSharedBytes"))
      kernel.dynamic_shared_bytes = entry.Get("dynamicSharedBytes").As<Napi::Number>();
  }
  return std::make_unique<GpuDevice>(load_driver(options.Get("platform").As<Napi::String>()),
                                     options.Get("ordinal").As<Napi::Number>(), std::move(kernels),
                                     options.Get("wave").As<Napi::Number>(), options.Get("block").As<Napi::Number>());
}

}  // namespace

Napi::Function DeviceObject::define(Napi::Env env) {
  return DefineClass(env, "Device",
                     {InstanceAccessor<&DeviceObject::properties>("properties"),
                      InstanceMethod<&DeviceObject::kernel>("kernel"),
                      InstanceMethod<&DeviceObject::allocate>("allocate"),
                      InstanceMethod<&DeviceObject::release>("release"),
                      InstanceMethod<&DeviceObject::allocate_pinned>("allocatePinned"),
                      InstanceMethod<&DeviceObject::release_pinned>("releasePinned"),
                      InstanceMethod<&DeviceObject::write>("write"),
                      InstanceMethod<&DeviceObject::read>("read"),
                      InstanceMethod<&DeviceObject::upload>("upload"),
                      InstanceMethod<&DeviceObject::create_plan>("createPlan"),
                      InstanceMethod<&DeviceObject::run>("run"),
                      InstanceMethod<&DeviceObject::time_launches>("timeLaunches"),
                      InstanceMethod<&DeviceObject::capture>("capture"),
                      InstanceMethod<&DeviceObject::release_plan>("releasePlan"),
                      InstanceMethod<&DeviceObject::graphs>("graphs"),
                      InstanceMethod<&DeviceObject::memory>("memory"),
                      InstanceMethod<&DeviceObject::copies>("copies"),
                      InstanceMethod<&DeviceObject::can_reach>("canReach"),
                      InstanceMethod<&DeviceObject::link_to>("linkTo"),
                      InstanceMethod<&DeviceObject::signal>("signal"),
                      InstanceMethod<&DeviceObject::reserve>("reserve"),
                      InstanceMethod<&DeviceObject::export_memory>("exportMemory"),
                      InstanceMethod<&DeviceObject::import_memory>("importMemory"),
                      InstanceMethod<&DeviceObject::close_memory>("closeMemory")});
}

DeviceObject::DeviceObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<DeviceObject>(info) {
  const Napi::Object options = info[0].As<Napi::Object>();
  try {
    thread_ = std::make_unique<DeviceThread>();
    completion_ = std::make_unique<DeviceThread>();
  } catch (const std::system_error&) {
    throw to_javascript(info.Env(), ThreadLimit(2, thread_ ? 1 : 0));
  }
  if (options.Has("library")) {
    const std::string library = options.Get("library").As<Napi::String>();
    const int threads = options.Get("threads").As<Napi::Number>();
    on_device(info.Env(), [&] { device_ = std::make_unique<HostDevice>(library, threads); });
  } else {
    // JavaScript's values may only be read on its own thread, which waits here; the driver is opened on the device's.
    std::unique_ptr<Device> device;
    try {
      device = open_gpu(options);
    } catch (const DeviceError& error) {
      throw to_javascript(info.Env(), error);
    }
    device_ = std::move(device);
  }
  if (options.Has("number")) {
    const int number = options.Get("number").As<Napi::Number>();
    device_->number = number + 1;
    label_ = "device " + std::to_string(number) + ": ";
  }
  // When the environment ends it closes the function itself, perhaps before this object: releasing it again would
  // abort.
  const auto closed = std::make_shared<bool>(false);
  completed_closed_ = closed;
  completed_ = Napi::ThreadSafeFunction::New(info.Env(), Napi::Function(), "rocmforge step", 0, 1,
                                             [closed](Napi::Env) { *closed = true; });
  // An idle device must not keep the process alive; run() holds it while a step is under way.
  completed_.Unref(info.Env());
}

DeviceObject::~DeviceObject() {
  thread_.reset();
  completion_.reset();
  if (completed_closed_ && !*completed_closed_) completed_.Release();
}

Napi::Value DeviceObject::properties(const Napi::CallbackInfo& info) {
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("description", device_->description());
  result.Set("wave", device_->wave());
  result.Set("block", device_->block());
  return result;
}

Napi::Value DeviceObject::kernel(const Napi::CallbackInfo& info) {
  const std::string name = info[0].As<Napi::String>();
  const Kernel* kernel = nullptr;
  on_device(info.Env(), [&] { kernel = device_->kernel(name); });
  Napi::Array bytes = Napi::Array::New(info.Env(), kernel->argument_bytes.size());
  for (uint32_t i = 0; i < kernel->argument_bytes.size(); i++) bytes.Set(i, kernel->argument_bytes[i]);
  return bytes;
}

Napi::Value DeviceObject::allocate(const Napi::CallbackInfo& info) {
  const auto bytes = static_cast<size_t>(info[0].As<Napi::Number>().DoubleValue());
  void* address = nullptr;
  on_device(info.Env(), [&] { address = device_->allocate(bytes); });
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(address)));
}

void DeviceObject::release(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  on_device(info.Env(), [&] { device_->release(address); });
}

Napi::Value DeviceObject::allocate_pinned(const Napi::CallbackInfo& info) {
  const auto bytes = static_cast<size_t>(info[0].As<Napi::Number>().DoubleValue());
  void* address = nullptr;
  on_device(info.Env(), [&] { address = device_->allocate_pinned(bytes); });
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(address)));
}

void DeviceObject::release_pinned(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  on_device(info.Env(), [&] { device_->release_pinned(address); });
}

Napi::Value DeviceObject::export_memory(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  Device::Handle handle;
  on_device(info.Env(), [&] { handle = device_->export_memory(address); });
  return Napi::Buffer<uint8_t>::Copy(info.Env(), handle.data(), handle.size());
}

Napi::Value DeviceObject::import_memory(const Napi::CallbackInfo& info) {
  const Napi::Uint8Array bytes = info[0].As<Napi::Uint8Array>();
  Device::Handle handle;
  if (bytes.ByteLength() != handle.size()) throw Napi::RangeError::New(info.Env(), "no handle of memory");
  std::memcpy(handle.data(), bytes.Data(), handle.size());
  void* address = nullptr;
  on_device(info.Env(), [&] { address = device_->import_memory(handle); });
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(address)));
}

void DeviceObject::close_memory(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  on_device(info.Env(), [&] { device_->close_memory(address); });
}

void DeviceObject::write(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  const Napi::Uint8Array data = info[1].As<Napi::Uint8Array>();
  const uint8_t* source = data.Data();
  const size_t bytes = data.ByteLength();
  on_device(info.Env(), [&] { device_->copy_in(address, source, bytes); });
}

void DeviceObject::upload(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  const void* source = pointer(info[1]);
  const auto bytes = static_cast<size_t>(info[2].As<Napi::Number>().DoubleValue());
  if (info.Length() < 5) return on_device(info.Env(), [&] { device_->copy_in(address, source, bytes); });
  const auto row_bytes = static_cast<size_t>(info[3].As<Napi::Number>().DoubleValue());
  const auto pitch = static_cast<size_t>(info[4].As<Napi::Number>().DoubleValue());
  on_device(info.Env(), [&] {
    std::vector<uint8_t> rows(bytes);
    for (size_t row = 0; row < bytes / row_bytes; row++) {
      std::memcpy(rows.data() + row * row_bytes, static_cast<const uint8_t*>(source) + row * pitch, row_bytes);
    }
    device_->copy_in(address, rows.data(), bytes);
  });
}

Napi::Value DeviceObject::memory(const Napi::CallbackInfo& info) {
  size_t free = 0;
  on_device(info.Env(), [&] { free = device_->free_bytes(); });
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("freeBytes", static_cast<double>(free));
  result.Set("totalBytes", static_cast<double>(device_->total_bytes()));
  return result;
}

Napi::Value DeviceObject::copies(const Napi::CallbackInfo& info) {
  const CopyCounts counts = device_->copies();
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("in", static_cast<double>(counts.in));
  result.Set("inBytes", static_cast<double>(counts.in_bytes));
  result.Set("out", static_cast<double>(counts.out));
  result.Set("outBytes", static_cast<double>(counts.out_bytes));
  return result;
}

Napi::Value DeviceObject::read(const Napi::CallbackInfo& info) {
  const void* address = pointer(info[0]);
  const auto bytes = static_cast<size_t>(info[1].As<Napi::Number>().DoubleValue());
  Napi::Uint8Array result = Napi::Uint8Array::New(info.Env(), bytes);
  uint8_t* target = result.Data();
  on_device(info.Env(), [&] {
    device_->copy_out(target, address, bytes);
    device_->synchronize();
  });
  return result;
}

Napi::Value DeviceObject::create_plan(const Napi::CallbackInfo& info) {
  const Napi::Array launches = info[0].As<Napi::Array>();
  auto plan = std::make_unique<LaunchPlan>();
  plan->count_slots = info[1].As<Napi::Number>();
  plan->capture_from = info[2].As<Napi::Number>().Uint32Value();
  DeviceObject* const host = info[3].IsObject() ? Unwrap(info[3].As<Napi::Object>()) : nullptr;
  if (host) plan->host = &host->device();
  plan->launches.resize(launches.Length());
  std::vector<std::string> names(launches.Length());
  for (uint32_t i = 0; i < launches.Length(); i++) {
    const Napi::Object source = launches.Get(i).As<Napi::Object>();
    Launch& launch = plan->launches[i];
    const std::string& name = names[i] = source.Get("kernel").As<Napi::String>();
    launch.on_host = source.Has("onHost") && source.Get("onHost").ToBoolean();
    if (launch.on_host && !host) throw Napi::RangeError::New(info.Env(), name + ": the plan has no host device");
    if (source.Has("mark")) launch.mark = source.Get("mark").As<Napi::Number>();
    if (source.Has("behindMark")) launch.behind_mark = source.Get("behindMark").As<Napi::Number>();
    const Napi::Array grid = source.Get("grid").As<Napi::Array>();
    for (uint32_t d = 0; d < 3; d++) {
      launch.grid[d] = grid_dim(grid.Get(d).As<Napi::Object>());
      if (launch.grid[d].count_index >= plan->count_slots) {
        throw Napi::RangeError::New(info.Env(), name + ": the grid names a count that no step brings");
      }
    }
    if (source.Has("description")) launch.description = source.Get("description").As<Napi::String>();
    if (source.Has("when")) {
      const Napi::Object when = source.Get("when").As<Napi::Object>();
      launch.when_count = when.Get("count").As<Napi::Number>();
      launch.at_least = when.Get("atLeast").As<Napi::Number>();
      launch.at_most = when.Get("atMost").As<Napi::Number>();
      if (launch.when_count >= plan->count_slots) {
        throw Napi::RangeError::New(info.Env(), name + ": its condition names a count that no step brings");
      }
    }
    const Napi::BigUint64Array words = source.Get("arguments").As<Napi::BigUint64Array>();
    launch.storage.assign(words.Data(), words.Data() + words.ElementLength());
    for (uint64_t& word : launch.storage) launch.params.push_back(&word);
  }
  // All at once: each turn on a device's thread takes some 20 us, and a plan has hundreds of launches.
  const auto find_kernels = [&](DeviceObject& by, bool on_host) {
    by.on_device(info.Env(), [&] {
      for (size_t i = 0; i < names.size(); i++) {
        Launch& launch = plan->launches[i];
        if (launch.on_host == on_host) launch.kernel = by.device().kernel(names[i]);
      }
    });
  };
  find_kernels(*this, false);
  if (host) find_kernels(*host, true);
  for (size_t i = 0; i < names.size(); i++) {
    const Launch& launch = plan->launches[i];
    if (launch.storage.size() != launch.kernel->argument_bytes.size()) {
      throw Napi::RangeError::New(info.Env(), names[i] + ": wrong number of arguments");
    }
  }
  plan->find_graph_counts();
  plans_[next_plan_] = std::move(plan);
  if (host) hosts_[next_plan_] = Napi::Persistent(info[3].As<Napi::Object>());
  return Napi::Number::New(info.Env(), next_plan_++);
}

LaunchPlan& DeviceObject::plan_for(Napi::Env env, uint32_t number, const Napi::Int32Array& counts) {
  const auto found = plans_.find(number);
  if (found == plans_.end()) throw Napi::RangeError::New(env, "no such plan");
  if (counts.ElementLength() != static_cast<size_t>(found->second->count_slots)) {
    throw Napi::RangeError::New(env, "wrong number of counts");
  }
  return *found->second;
}

void DeviceObject::capture(const Napi::CallbackInfo& info) {
  const Napi::Int32Array counts = info[1].As<Napi::Int32Array>();
  const LaunchPlan& plan = plan_for(info.Env(), info[0].As<Napi::Number>(), counts);
  const std::vector<int> values(counts.Data(), counts.Data() + counts.ElementLength());
  on_device(info.Env(), [&] { device_->capture(plan, values); });
}

void DeviceObject::release_plan(const Napi::CallbackInfo& info) {
  const auto found = plans_.find(info[0].As<Napi::Number>().Uint32Value());
  if (found == plans_.end()) throw Napi::RangeError::New(info.Env(), "no such plan");
  // Steps that were queued before this have been launched when their turn on the thread is over.
  on_device(info.Env(), [&] { device_->forget(*found->second); });
  hosts_.erase(found->first);
  plans_.erase(found);
}

Napi::Value DeviceObject::graphs(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(device_->graphs_instantiated()));
}

Napi::Value DeviceObject::run(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Napi::Object job = info[0].As<Napi::Object>();
  const Napi::Int32Array counts = job.Get("counts").As<Napi::Int32Array>();
  const LaunchPlan& plan = plan_for(env, job.Get("plan").As<Napi::Number>(), counts);
  const Napi::Uint8Array input = job.Get("input").As<Napi::Uint8Array>();
  Napi::Uint8Array output = job.Get("output").As<Napi::Uint8Array>();

  auto* step = new QueuedStep(env);
  step->work.plan = &plan;
  step->work.counts.assign(counts.Data(), counts.Data() + counts.ElementLength());
  if (job.Has("step")) step->work.step = static_cast<uint64_t>(job.Get("step").As<Napi::Number>().DoubleValue());
  step->work.recurring = job.Get("recurring").ToBoolean();
  step->work.device_input = pointer(job.Get("deviceInput"));
  step->work.device_output = pointer(job.Get("deviceOutput"));
  step->work.input = input.Data();
  step->work.input_bytes = input.ByteLength();
  if (job.Has("file")) {
    const Napi::Object file = job.Get("file").As<Napi::Object>();
    const Napi::Float64Array ranges = file.Get("ranges").As<Napi::Float64Array>();
    step->work.file.descriptor = file.Get("descriptor").As<Napi::Number>();
    for (size_t i = 0; i + 1 < ranges.ElementLength(); i += 2) {
      step->work.file.ranges.push_back({static_cast<int64_t>(ranges[i]), static_cast<size_t>(ranges[i + 1])});
    }
  }
  step->work.output = output.Data();
  step->work.output_bytes = output.ByteLength();
  step->work.receives = transfer(job.Get("receives"), &step->receives);
  step->work.sends = transfer(job.Get("sends"), &step->sends);
  if (job.Has("begins")) step->begins = job.Get("begins").ToBoolean();
  if (job.Has("ends")) step->ends = job.Get("ends").ToBoolean();
  step->input = Napi::Persistent(input);
  step->output = Napi::Persistent(output);
  const Napi::Promise promise = step->deferred.Promise();

  Ref();
  if (in_flight_++ == 0) completed_.Ref(env);
  // Nobody waits for the end of the part before alone: where it has not come yet, JavaScript is woken once for both.
  const bool joins = job.Has("joins") && job.Get("joins").ToBoolean();
  QueuedStep* before = last_;
  if (joins && before && !before->is_claimed.exchange(true)) step->part_before.reset(before);
  last_ = step;
  // One thread queues steps on the device and another waits for them: the next is queued while one runs.
  thread_->enqueue([this, step] {
    if (step->work.step != 0 && step->begins) FaultRecord::instance().step_begun(step->work.step);
    if (step->work.step != 0 && !step->begins) FaultRecord::instance().step_joined(step->work.step);
    step->attempt([&] { device_->begin_step(step->work); });
    if (step->error) step->work.give_up();
    completion_->enqueue([this, step] {
      step->attempt([&] { step->device_us = device_->finish_step(step->work); });
      if (step->error) {
        step->error = std::make_unique<DeviceError>(label_ + step->error->what(), step->error->sticky);
        FaultRecord::instance().error(step->error->what(), step->error->sticky);
      } else if (step->work.step != 0 && step->ends) {
        FaultRecord::instance().step_finished(step->work.step);
      }
      if (step->is_claimed.exchange(true)) return;
      completed_.BlockingCall(step, [this](Napi::Env settle_env, Napi::Function, QueuedStep* done) {
        done->settle(settle_env);
        if (last_ == done) last_ = nullptr;
        const int ended = done->part_before ? 2 : 1;
        delete done;
        if ((in_flight_ -= ended) == 0) completed_.Unref(settle_env);
        for (int i = 0; i < ended; i++) Unref();
      });
    });
  });
  return promise;
}

Napi::Value DeviceObject::can_reach(const Napi::CallbackInfo& info) {
  Device& other = Unwrap(info[0].As<Napi::Object>())->device();
  bool can = false;
  on_device(info.Env(), [&] { can = device_->can_reach(other); });
  return Napi::Boolean::New(info.Env(), can);
}

void DeviceObject::reserve(const Napi::CallbackInfo& info) {
  const auto input = static_cast<size_t>(info[0].As<Napi::Number>().DoubleValue());
  const auto output = static_cast<size_t>(info[1].As<Napi::Number>().DoubleValue());
  on_device(info.Env(), [&] { device_->reserve(input, output); });
}

// On this thread: the device's own may wait for what is to be ended.
void DeviceObject::signal(const Napi::CallbackInfo& info) {
  try {
    device_->signal(pointer(info[0]), info[1].As<Napi::Number>().Int32Value());
  } catch (const DeviceError& error) {
    throw to_javascript(info.Env(), error);
  }
}

Napi::Value DeviceObject::link_to(const Napi::CallbackInfo& info) {
  return info.Env().GetInstanceData<AddonData>()->link.New({info.This(), info[0], info[1]});
}

Napi::Value DeviceObject::time_launches(const Napi::CallbackInfo& info) {
  const Napi::Int32Array counts = info[1].As<Napi::Int32Array>();
  const LaunchPlan& plan = plan_for(info.Env(), info[0].As<Napi::Number>(), counts);
  const std::vector<int> values(counts.Data(), counts.Data() + counts.ElementLength());
  std::vector<double> times;
  on_device(info.Env(), [&] { times = device_->time_launches(plan, values); });
  Napi::Float64Array result = Napi::Float64Array::New(info.Env(), times.size());
  std::copy(times.begin(), times.end(), result.Data());
  return result;
}

}  // namespace rocmforge
