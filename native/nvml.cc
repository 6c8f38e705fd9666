#include "nvml.h"

#include <dlfcn.h>

#include <string>

namespace rocmforge {
namespace {

// The functions as nvml.h declares them; handles are pointers, results and enumerations 32-bit integers, success is 0.
struct Nvml {
  int (*handle)(const char* pci_bus_id, void** device) = nullptr;
  int (*clock)(void* device, int kind, unsigned* megahertz) = nullptr;
  int (*temperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  int (*power)(void* device, unsigned* milliwatts) = nullptr;
  int (*clock_reasons)(void* device, unsigned long long* reasons) = nullptr;
};
constexpr int SM_CLOCK = 1, GPU_SENSOR = 0;
// Reasons for which a clock is held down while there is work: power cap, hardware slowdown, heat as software and as
// hardware see it, and power brake. Others are settings, or idleness.
constexpr unsigned long long THROTTLED = 0x04 | 0x08 | 0x20 | 0x40 | 0x80;

// Opened once and kept: initializing it takes tens of milliseconds. Null where it is not there or does not start.
const Nvml* nvml() {
  static const Nvml* const instance = []() -> const Nvml* {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
    const auto find = [&](const char* name, auto* target) {
      if (!*target) *target = reinterpret_cast<std::remove_reference_t<decltype(*target)>>(dlsym(library, name));
    };
    int (*init)() = nullptr;
    find("nvmlInit_v2", &init);
    if (!init || init() != 0) return nullptr;
    auto* table = new Nvml;
    find("nvmlDeviceGetHandleByPciBusId_v2", &table->handle);
    find("nvmlDeviceGetClockInfo", &table->clock);
    find("nvmlDeviceGetTemperature", &table->temperature);
    find("nvmlDeviceGetPowerUsage", &table->power);
    // Renamed in CUDA 12.2; the old name stays in older libraries.
    find("nvmlDeviceGetCurrentClocksEventReasons", &table->clock_reasons);
    find("nvmlDeviceGetCurrentClocksThrottleReasons", &table->clock_reasons);
    return table;
  }();
  return instance;
}

}  // namespace

Napi::Value nvml_stats(const Napi::CallbackInfo& info) {
  Napi::Object result = Napi::Object::New(info.Env());
  const std::string pci_bus_id = info[0].As<Napi::String>();
  const Nvml* library = nvml();
  void* device = nullptr;
  if (!library || !library->handle || library->handle(pci_bus_id.c_str(), &device) != 0) return result;
  unsigned value = 0;
  unsigned long long reasons = 0;
  if (library->temperature && library->temperature(device, GPU_SENSOR, &value) == 0) result.Set("temperatureC", value);
  if (library->power && library->power(device, &value) == 0) result.Set("powerW", value / 1000.0);
  if (library->clock && library->clock(device, SM_CLOCK, &value) == 0) result.Set("clockMhz", value);
  if (library->clock_reasons && library->clock_reasons(device, &reasons) == 0) {
    result.Set("throttled", Napi::Boolean::New(info.Env(), (reasons & THROTTLED) != 0));
  }
  return result;
}

}  // namespace rocmforge
