#include "device_object.h"

#include <chrono>
#include <cstring>

#include "host_device.h"

namespace rocmforge {
namespace {

void* pointer(const Napi::Value& value) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(value.As<Napi::Number>().DoubleValue()));
}

Napi::Error to_javascript(Napi::Env env, const DeviceError& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("sticky", Napi::Boolean::New(env, error.sticky));
  return result;
}

GridDim grid_dim(const Napi::Object& dim) {
  GridDim result;
  result.count_index = dim.Get("count").As<Napi::Number>();
  result.constant = dim.Get("constant").As<Napi::Number>();
  result.divisor = dim.Get("divisor").As<Napi::Number>();
  return result;
}

// One queued step. Lives until its promise is settled; the references keep JavaScript's buffers where they are.
struct Step {
  explicit Step(Napi::Env env) : deferred(Napi::Promise::Deferred::New(env)) {}

  const LaunchPlan* plan = nullptr;
  std::vector<int> counts;
  Napi::Reference<Napi::Uint8Array> input, output;
  void* device_input = nullptr;
  const void* device_output = nullptr;
  const uint8_t* input_data = nullptr;
  uint8_t* output_data = nullptr;
  size_t input_bytes = 0, output_bytes = 0;

  Napi::Promise::Deferred deferred;
  double device_us = 0;
  std::unique_ptr<DeviceError> error;

  // One copy in, the plan, one copy out.
  void run(Device& device) {
    const auto start = std::chrono::steady_clock::now();
    try {
      device.copy_in(device_input, input_data, input_bytes);
      plan->run(device, counts);
      device.copy_out(output_data, device_output, output_bytes);
      device.synchronize();
    } catch (const DeviceError& caught) {
      error = std::make_unique<DeviceError>(caught);
    }
    device_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  void settle(Napi::Env env) {
    if (error) {
      deferred.Reject(to_javascript(env, *error).Value());
    } else {
      deferred.Resolve(Napi::Number::New(env, device_us));
    }
  }
};

}  // namespace

Napi::Function DeviceObject::define(Napi::Env env) {
  return DefineClass(
      env, "Device",
      {InstanceAccessor<&DeviceObject::properties>("properties"), InstanceMethod<&DeviceObject::kernel>("kernel"),
       InstanceMethod<&DeviceObject::allocate>("allocate"), InstanceMethod<&DeviceObject::release>("release"),
       InstanceMethod<&DeviceObject::write>("write"), InstanceMethod<&DeviceObject::read>("read"),
       InstanceMethod<&DeviceObject::create_plan>("createPlan"), InstanceMethod<&DeviceObject::run>("run")});
}

DeviceObject::DeviceObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<DeviceObject>(info) {
  const Napi::Object options = info[0].As<Napi::Object>();
  const std::string library = options.Get("library").As<Napi::String>();
  const int threads = options.Get("threads").As<Napi::Number>();
  thread_ = std::make_unique<DeviceThread>();
  on_device(info.Env(), [&] { device_ = std::make_unique<HostDevice>(library, threads); });
  completed_ = Napi::ThreadSafeFunction::New(info.Env(), Napi::Function(), "rocmforge step", 0, 1);
  // An idle device must not keep the process alive; run() holds it while a step is under way.
  completed_.Unref(info.Env());
}

DeviceObject::~DeviceObject() {
  thread_.reset();
  completed_.Release();
}

template <class Job>
void DeviceObject::on_device(Napi::Env env, Job job) {
  try {
    thread_->run(job);
  } catch (const DeviceError& error) {
    throw to_javascript(env, error);
  }
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

void DeviceObject::write(const Napi::CallbackInfo& info) {
  void* address = pointer(info[0]);
  const Napi::Uint8Array data = info[1].As<Napi::Uint8Array>();
  const uint8_t* source = data.Data();
  const size_t bytes = data.ByteLength();
  on_device(info.Env(), [&] { device_->copy_in(address, source, bytes); });
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
  plan->launches.resize(launches.Length());
  for (uint32_t i = 0; i < launches.Length(); i++) {
    const Napi::Object source = launches.Get(i).As<Napi::Object>();
    Launch& launch = plan->launches[i];
    const std::string name = source.Get("kernel").As<Napi::String>();
    on_device(info.Env(), [&] { launch.kernel = device_->kernel(name); });
    const Napi::Array grid = source.Get("grid").As<Napi::Array>();
    for (uint32_t d = 0; d < 3; d++) {
      launch.grid[d] = grid_dim(grid.Get(d).As<Napi::Object>());
      if (launch.grid[d].count_index >= plan->count_slots) {
        throw Napi::RangeError::New(info.Env(), name + ": the grid names a count that no step brings");
      }
    }
    const Napi::BigUint64Array words = source.Get("arguments").As<Napi::BigUint64Array>();
    if (words.ElementLength() != launch.kernel->argument_bytes.size()) {
      throw Napi::RangeError::New(info.Env(), name + ": wrong number of arguments");
    }
    launch.storage.assign(words.Data(), words.Data() + words.ElementLength());
    for (uint64_t& word : launch.storage) launch.params.push_back(&word);
  }
  plans_.push_back(std::move(plan));
  return Napi::Number::New(info.Env(), static_cast<double>(plans_.size() - 1));
}

Napi::Value DeviceObject::run(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Napi::Object job = info[0].As<Napi::Object>();
  const uint32_t plan = job.Get("plan").As<Napi::Number>();
  const Napi::Int32Array counts = job.Get("counts").As<Napi::Int32Array>();
  if (plan >= plans_.size()) throw Napi::RangeError::New(env, "run: no such plan");
  if (counts.ElementLength() != static_cast<size_t>(plans_[plan]->count_slots)) {
    throw Napi::RangeError::New(env, "run: wrong number of counts");
  }
  const Napi::Uint8Array input = job.Get("input").As<Napi::Uint8Array>();
  Napi::Uint8Array output = job.Get("output").As<Napi::Uint8Array>();

  auto* step = new Step(env);
  step->plan = plans_[plan].get();
  step->counts.assign(counts.Data(), counts.Data() + counts.ElementLength());
  step->device_input = pointer(job.Get("deviceInput"));
  step->device_output = pointer(job.Get("deviceOutput"));
  step->input_data = input.Data();
  step->input_bytes = input.ByteLength();
  step->output_data = output.Data();
  step->output_bytes = output.ByteLength();
  step->input = Napi::Persistent(input);
  step->output = Napi::Persistent(output);
  const Napi::Promise promise = step->deferred.Promise();

  Ref();
  if (in_flight_++ == 0) completed_.Ref(env);
  thread_->enqueue([this, step] {
    step->run(*device_);
    completed_.BlockingCall(step, [this](Napi::Env settle_env, Napi::Function, Step* done) {
      done->settle(settle_env);
      delete done;
      if (--in_flight_ == 0) completed_.Unref(settle_env);
      Unref();
    });
  });
  return promise;
}

}  // namespace rocmforge
