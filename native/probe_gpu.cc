#include "probe_gpu.h"

namespace rocmforge {
namespace {

void check(const Driver& driver, DriverResult result) {
  if (result != DRIVER_SUCCESS) throw DeviceError(driver.error_text(result));
}

}  // namespace

std::unique_ptr<Driver> load_driver(const std::string& platform) {
  return std::unique_ptr<Driver>(platform == "hip" ? load_hip_driver() : load_cuda_driver());
}

Napi::Error to_javascript(Napi::Env env, const DeviceError& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("sticky", Napi::Boolean::New(env, error.sticky));
  return result;
}

Napi::Error to_javascript(Napi::Env env, const ThreadLimit& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("code", Napi::String::New(env, "EAGAIN"));
  return result;
}

Napi::Value probe_gpu(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const std::string platform = info[0].As<Napi::String>();
  Napi::Object result = Napi::Object::New(env);
  try {
    const std::unique_ptr<Driver> driver = load_driver(platform);
    result.Set("library", driver->library);
    int version = 0, count = 0;
    const DriverResult initialized = driver->init(0);
    // Without a device some drivers fail to initialize with a code that says less than the count's.
    check(*driver, driver->device_get_count(&count));
    check(*driver, initialized);
    check(*driver, driver->driver_get_version(&version));
    result.Set("version", version);
    Napi::Array devices = Napi::Array::New(env);
    for (int i = 0; i < count; i++) {
      int device = 0;
      char name[256] = {}, pci_bus_id[32] = {};
      size_t bytes = 0;
      std::string architecture;
      check(*driver, driver->device_get(&device, i));
      check(*driver, driver->device_get_name(name, sizeof name, device));
      check(*driver, driver->device_get_pci_bus_id(pci_bus_id, sizeof pci_bus_id, device));
      check(*driver, driver->device_total_memory(&bytes, device));
      check(*driver, driver->architecture(i, &architecture));
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("ordinal", i);
      entry.Set("name", std::string(name));
      entry.Set("architecture", architecture);
      entry.Set("pciBusId", std::string(pci_bus_id));
      entry.Set("totalBytes", static_cast<double>(bytes));
      entry.Set("multiprocessors", driver->multiprocessors(device));
      if (platform == "cuda") {
        constexpr int COMPUTE_MODE = 20, EXCLUSIVE_PROCESS = 3;
        int mode = 0;
        check(*driver, driver->device_get_attribute(&mode, COMPUTE_MODE, device));
        entry.Set("isExclusive", mode == EXCLUSIVE_PROCESS);
      }
      devices.Set(i, entry);
    }
    result.Set("devices", devices);
  } catch (const DeviceError& error) {
    throw to_javascript(env, error);
  }
  return result;
}

}  // namespace rocmforge
