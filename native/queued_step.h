// A step on its way through the device's threads.
#pragma once

#include <napi.h>

#include <atomic>
#include <memory>

#include "device.h"
#include "probe_gpu.h"

namespace rocmforge {

// One queued step. Lives until its promise is settled; the references keep JavaScript's buffers where they are.
struct QueuedStep {
  explicit QueuedStep(Napi::Env env) : deferred(Napi::Promise::Deferred::New(env)) {}

  StepWork work;
  // True if this is the first of the devices that the step goes through, and whether it is the last one.
  bool begins = true, ends = true;
  Napi::Reference<Napi::Uint8Array> input, output;
  Napi::ObjectReference receives, sends;
  Napi::Promise::Deferred deferred;
  double device_us = 0;
  std::unique_ptr<DeviceError> error;
  // Whoever sets it first tells of its end: the thread that waits for it, or the part behind it.
  std::atomic<bool> is_claimed{false};
  // A part of the same step before it, of whose end it tells, too.
  std::unique_ptr<QueuedStep> part_before;

  template <class Job>
  void attempt(Job job) {
    if (error) return;
    try {
      job();
    } catch (const DeviceError& caught) {
      error = std::make_unique<DeviceError>(caught);
    } catch (const std::exception& caught) {
      // Such as an allocation of the host's that failed: it must not end the thread that it happened on.
      error = std::make_unique<DeviceError>(caught.what());
    }
  }
  void settle(Napi::Env env) {
    if (part_before) part_before->settle(env);
    if (error) {
      deferred.Reject(to_javascript(env, *error).Value());
    } else {
      deferred.Resolve(Napi::Number::New(env, device_us));
    }
  }
};

}  // namespace rocmforge
