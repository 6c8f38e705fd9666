// Sensor values of a GPU from NVIDIA's management library.
#pragma once

#include <napi.h>

namespace rocmforge {

// (PCI bus id) → {temperatureC, powerW, clockMhz, throttled}, without those that the library does not tell; empty where
// there is no library.
Napi::Value nvml_stats(const Napi::CallbackInfo& info);

}  // namespace rocmforge
