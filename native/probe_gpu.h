// Which devices a driver finds, and what device objects share with that: opening its library, and its errors.
#pragma once

#include <napi.h>

#include <memory>
#include <string>

#include "device.h"
#include "driver.h"
#include "thread_pool.h"

namespace rocmforge {

// platform: "hip" or "cuda".
std::unique_ptr<Driver> load_driver(const std::string& platform);

Napi::Error to_javascript(Napi::Env env, const DeviceError& error);
// With the code EAGAIN, as Node has it for a process that could not be started.
Napi::Error to_javascript(Napi::Env env, const ThreadLimit& error);

// probeGpu(platform): what the driver of that platform finds, without holding on to any of it.
Napi::Value probe_gpu(const Napi::CallbackInfo& info);

}  // namespace rocmforge
