// A libnvidia-ml.so.1 for tests: one GPU at 0000:ff:1f.7, hot and held down.
#include <cstring>

namespace {
int gpu;
}  // namespace

#define NVML extern "C" __attribute__((visibility("default"))) int

NVML nvmlInit_v2() { return 0; }
NVML nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = &gpu;
  return std::strcmp(id, "0000:ff:1f.7") == 0 ? 0 : 6;
}
NVML nvmlDeviceGetClockInfo(void* device, int kind, unsigned* megahertz) {
  *megahertz = 1980;
  return device == &gpu && kind == 1 ? 0 : 2;
}
NVML nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = 71;
  return device == &gpu && sensor == 0 ? 0 : 2;
}
NVML nvmlDeviceGetPowerUsage(void*, unsigned*) { return 3; }  // not supported
// Under its older name alone. Idle, and held down by heat.
NVML nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) { return *reasons = 0x21, 0; }
