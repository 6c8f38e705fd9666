// The JavaScript face of a Device: see NativeDevice in src/executor/device/addon.ts.
#pragma once

#include <napi.h>

#include <map>
#include <memory>

#include "device.h"
#include "device_thread.h"
#include "launch_plan.h"
#include "probe_gpu.h"

namespace rocmforge {

struct QueuedStep;

// Device and host addresses are numbers in JavaScript.
void* pointer(const Napi::Value& value);

class DeviceObject : public Napi::ObjectWrap<DeviceObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit DeviceObject(const Napi::CallbackInfo& info);
  ~DeviceObject() override;

  Device& device() { return *device_; }
  // Runs on the device thread and turns a DeviceError into a JavaScript one.
  template <class Job>
  void on_device(Napi::Env env, Job job) {
    try {
      thread_->run(job);
    } catch (const DeviceError& error) {
      throw to_javascript(env, error);
    } catch (const ThreadLimit& error) {
      throw to_javascript(env, error);
    } catch (const std::exception& error) {
      throw Napi::Error::New(env, error.what());
    }
  }

 private:
  Napi::Value properties(const Napi::CallbackInfo& info);
  Napi::Value kernel(const Napi::CallbackInfo& info);
  Napi::Value allocate(const Napi::CallbackInfo& info);
  void release(const Napi::CallbackInfo& info);
  Napi::Value allocate_pinned(const Napi::CallbackInfo& info);
  void release_pinned(const Napi::CallbackInfo& info);
  Napi::Value export_memory(const Napi::CallbackInfo& info);
  Napi::Value import_memory(const Napi::CallbackInfo& info);
  void close_memory(const Napi::CallbackInfo& info);
  void write(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  void upload(const Napi::CallbackInfo& info);
  Napi::Value memory(const Napi::CallbackInfo& info);
  Napi::Value copies(const Napi::CallbackInfo& info);
  Napi::Value time_launches(const Napi::CallbackInfo& info);
  Napi::Value create_plan(const Napi::CallbackInfo& info);
  void capture(const Napi::CallbackInfo& info);
  void release_plan(const Napi::CallbackInfo& info);
  Napi::Value graphs(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  Napi::Value can_reach(const Napi::CallbackInfo& info);
  void signal(const Napi::CallbackInfo& info);
  void reserve(const Napi::CallbackInfo& info);
  Napi::Value link_to(const Napi::CallbackInfo& info);

  // The plan of that number. Throws a JavaScript RangeError when there is none, or when it takes other counts.
  LaunchPlan& plan_for(Napi::Env env, uint32_t number, const Napi::Int32Array& counts);

  std::unique_ptr<Device> device_;
  std::string label_;  // of its errors, where the process has several devices
  std::map<uint32_t, std::unique_ptr<LaunchPlan>> plans_;
  // The host devices of plans with launches there: they outlive the plans.
  std::map<uint32_t, Napi::ObjectReference> hosts_;
  uint32_t next_plan_ = 0;
  Napi::ThreadSafeFunction completed_;
  std::shared_ptr<bool> completed_closed_;
  // Touched by JavaScript's thread alone: steps whose promise is not settled, and the last of them.
  int in_flight_ = 0;
  QueuedStep* last_ = nullptr;
  // Last, so that they end before what their jobs use: one queues steps on the device, the other waits for them.
  std::unique_ptr<DeviceThread> completion_, thread_;
};

}  // namespace rocmforge
