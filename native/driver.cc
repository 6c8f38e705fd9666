#include "driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "device.h"

namespace rocmforge {
namespace {

void* open_first(const std::vector<std::string>& candidates, std::string* chosen) {
  std::string errors;
  for (const std::string& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      *chosen = candidate;
      return library;
    }
    const char* error = dlerror();
    errors += (errors.empty() ? "" : "; ") + std::string(error ? error : "unknown error");
  }
  throw DeviceError(errors);
}

template <class Function>
void bind(void* library, const char* name, Function* target) {
  *target = reinterpret_cast<Function>(dlsym(library, name));
  if (!*target) throw DeviceError(std::string("the driver library has no ") + name);
}

/** An error of a driver. HIP without a device has no text of its own: it repeats the name. */
std::string described(const char* name, const std::string& text) { return name == text ? text : name + (": " + text); }

struct HipDriver : Driver {
  DriverResult (*set_device)(int ordinal) = nullptr;
  DriverResult (*get_properties)(void* properties, int ordinal) = nullptr;
  const char* (*get_error_name)(DriverResult) = nullptr;
  const char* (*get_error_string)(DriverResult) = nullptr;
  DriverResult (*device_enable_peer_access)(int peer, unsigned flags) = nullptr;
  DriverResult (*copy_peer)(DeviceAddress to, int to_device, DeviceAddress from, int from_device, size_t bytes,
                            DriverHandle stream) = nullptr;

  DriverResult open_device(int ordinal) override {
    device = ordinal;
    return set_device(ordinal);
  }
  DriverResult bind_thread() override { return set_device(device); }
  DriverResult enable_peer_access(const Driver& peer) override { return device_enable_peer_access(peer.device, 0); }
  DriverResult copy_to_peer(DeviceAddress to, const Driver& peer, DeviceAddress from, size_t bytes,
                            DriverHandle stream) override {
    return copy_peer(to, peer.device, from, device, bytes, stream);
  }
  DriverResult close_device() override { return DRIVER_SUCCESS; }
  // hipDeviceProp_t has had three layouts. In each, gcnArchName is the one field that begins with "gfx" followed by
  // digits, so it is looked for and not counted on to stand somewhere.
  DriverResult architecture(int ordinal, std::string* name) override {
    constexpr size_t LARGER_THAN_ANY_LAYOUT = 16384;
    std::vector<char> properties(LARGER_THAN_ANY_LAYOUT, 0);
    const DriverResult result = get_properties(properties.data(), ordinal);
    if (result != DRIVER_SUCCESS) return result;
    for (size_t i = 0; i + 16 < properties.size(); i++) {
      const char* p = properties.data() + i;
      if (std::strncmp(p, "gfx", 3) != 0 || p[3] < '0' || p[3] > '9') continue;
      // "gfx942:sramecc+:xnack-" names features after the target.
      *name = std::string(p, strcspn(p, ":"));
      return DRIVER_SUCCESS;
    }
    name->clear();
    return DRIVER_SUCCESS;
  }
  std::string error_text(DriverResult result) const override {
    return described(get_error_name(result), get_error_string(result));
  }
  int multiprocessors(int device) const override {
    constexpr int MULTIPROCESSOR_COUNT = 63;  // hipDeviceAttributeMultiprocessorCount
    int value = 0;
    return device_get_attribute(&value, MULTIPROCESSOR_COUNT, device) == DRIVER_SUCCESS ? value : 0;
  }
};

// CUlaunchConfig and CUlaunchAttribute of cuda.h, and the one attribute that is used.
struct LaunchAttribute {
  int id;
  alignas(8) union {
    char bytes[64];
    int is_allowed;
  } value;
};
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned dynamic_shared_bytes;
  DriverHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int PROGRAMMATIC_STREAM_SERIALIZATION = 6;
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56, "as cuda.h lays them out");

struct CudaDriver : Driver {
  static constexpr int CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76;
  DriverResult (*retain_primary_context)(DriverHandle* context, int device) = nullptr;
  DriverResult (*release_primary_context)(int device) = nullptr;
  DriverResult (*set_current_context)(DriverHandle context) = nullptr;
  DriverResult (*get_error_name)(DriverResult, const char**) = nullptr;
  DriverResult (*get_error_string)(DriverResult, const char**) = nullptr;
  DriverResult (*launch_kernel_ex)(const LaunchConfig*, DriverHandle function, void** params, void** extra) = nullptr;
  DriverResult (*set_function_attribute)(DriverHandle function, int attribute, int value) = nullptr;
  DriverResult (*context_enable_peer_access)(DriverHandle context, unsigned flags) = nullptr;
  DriverResult (*copy_peer)(DeviceAddress to, DriverHandle to_context, DeviceAddress from, DriverHandle from_context,
                            size_t bytes, DriverHandle stream) = nullptr;
  DriverHandle context_ = nullptr;
  bool can_overlap_ = false;

  DriverResult open_device(int ordinal) override {
    DriverResult result = device_get(&device, ordinal);
    int major = 0, version = 0;
    if (result == DRIVER_SUCCESS) result = device_get_attribute(&major, CAPABILITY_MAJOR, device);
    if (result == DRIVER_SUCCESS) result = driver_get_version(&version);
    const char* overlap = std::getenv("ROCMFORGE_OVERLAP_LAUNCHES");
    // Graphs have such launches since CUDA 12.3.
    can_overlap_ = major >= 9 && version >= 12030 && launch_kernel_ex && !(overlap && std::strcmp(overlap, "0") == 0);
    if (result == DRIVER_SUCCESS) result = retain_primary_context(&context_, device);
    return result == DRIVER_SUCCESS ? bind_thread() : result;
  }
  DriverResult launch_behind(DriverHandle function, const unsigned (&grid)[3], unsigned block,
                             unsigned dynamic_shared_bytes, DriverHandle stream, void** params) override {
    if (!can_overlap_) return Driver::launch_behind(function, grid, block, dynamic_shared_bytes, stream, params);
    LaunchAttribute attribute = {PROGRAMMATIC_STREAM_SERIALIZATION, {}};
    attribute.value.is_allowed = 1;
    const LaunchConfig config = {
        {grid[0], grid[1], grid[2]}, {block, 1, 1}, dynamic_shared_bytes, stream, &attribute, 1};
    return launch_kernel_ex(&config, function, params, nullptr);
  }
  DriverResult allow_shared_bytes(DriverHandle function, unsigned bytes) override {
    constexpr int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
    return set_function_attribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  }
  DriverResult bind_thread() override { return set_current_context(context_); }
  DriverResult close_device() override { return release_primary_context(device); }
  DriverResult enable_peer_access(const Driver& peer) override {
    return context_enable_peer_access(static_cast<const CudaDriver&>(peer).context_, 0);
  }
  DriverResult copy_to_peer(DeviceAddress to, const Driver& peer, DeviceAddress from, size_t bytes,
                            DriverHandle stream) override {
    return copy_peer(to, static_cast<const CudaDriver&>(peer).context_, from, context_, bytes, stream);
  }
  DriverResult architecture(int ordinal, std::string* name) override {
    int found = 0, major = 0, minor = 0;
    DriverResult result = device_get(&found, ordinal);
    if (result == DRIVER_SUCCESS) result = device_get_attribute(&major, CAPABILITY_MAJOR, found);
    if (result == DRIVER_SUCCESS) result = device_get_attribute(&minor, CAPABILITY_MINOR, found);
    *name = "sm_" + std::to_string(major) + std::to_string(minor);
    return result;
  }
  std::string error_text(DriverResult result) const override {
    const char *name = nullptr, *text = nullptr;
    get_error_name(result, &name);
    get_error_string(result, &text);
    return described(name ? name : "unknown error", text ? text : std::to_string(result));
  }
  int multiprocessors(int device) const override {
    constexpr int MULTIPROCESSOR_COUNT = 16;
    int value = 0;
    return device_get_attribute(&value, MULTIPROCESSOR_COUNT, device) == DRIVER_SUCCESS ? value : 0;
  }
};

}  // namespace

Driver* load_hip_driver() {
  std::vector<std::string> candidates;
  if (const char* root = std::getenv("ROCM_PATH")) candidates.push_back(std::string(root) + "/lib/libamdhip64.so");
  for (const char* name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
    candidates.emplace_back(name);
  }
  auto driver = std::make_unique<HipDriver>();
  driver->platform = "hip";
  void* library = open_first(candidates, &driver->library);
  const auto from = [&](const char* name, auto* target) { bind(library, name, target); };
#define FORGE_DRIVER_SYMBOL(field, hip, cuda) from(hip, &driver->field);
#include "driver_symbols.h"
#undef FORGE_DRIVER_SYMBOL
  from("hipDeviceEnablePeerAccess", &driver->device_enable_peer_access);
  from("hipMemcpyPeerAsync", &driver->copy_peer);
  from("hipSetDevice", &driver->set_device);
  from("hipGetErrorName", &driver->get_error_name);
  from("hipGetErrorString", &driver->get_error_string);
  // ROCm 6 renamed the call when the structure changed.
  void* properties = dlsym(library, "hipGetDevicePropertiesR0600");
  if (!properties) properties = dlsym(library, "hipGetDeviceProperties");
  if (!properties) throw DeviceError("the driver library has no hipGetDeviceProperties");
  driver->get_properties = reinterpret_cast<decltype(driver->get_properties)>(properties);
  return driver.release();
}

Driver* load_cuda_driver() {
  auto driver = std::make_unique<CudaDriver>();
  driver->platform = "cuda";
  void* library = open_first({"libcuda.so.1"}, &driver->library);
  const auto from = [&](const char* name, auto* target) { bind(library, name, target); };
#define FORGE_DRIVER_SYMBOL(field, hip, cuda) from(cuda, &driver->field);
#include "driver_symbols.h"
#undef FORGE_DRIVER_SYMBOL
  from("cuDevicePrimaryCtxRetain", &driver->retain_primary_context);
  from("cuDevicePrimaryCtxRelease_v2", &driver->release_primary_context);
  from("cuCtxSetCurrent", &driver->set_current_context);
  from("cuCtxEnablePeerAccess", &driver->context_enable_peer_access);
  from("cuMemcpyPeerAsync", &driver->copy_peer);
  from("cuGetErrorName", &driver->get_error_name);
  from("cuGetErrorString", &driver->get_error_string);
  from("cuFuncSetAttribute", &driver->set_function_attribute);
  // Since CUDA 11.8.
  driver->launch_kernel_ex = reinterpret_cast<decltype(driver->launch_kernel_ex)>(dlsym(library, "cuLaunchKernelEx"));
  return driver.release();
}

bool is_sticky(DriverResult result) {
  switch (result) {
    case 214:  // uncorrectable ECC error
    case 700:  // illegal address
    case 702:  // launch timed out
    case 710:  // assertion in a kernel
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
    case 721:  // contained by the driver
    case 46:   // the device was lost or is unavailable
    case 100:  // no device: it was there when the process began
    case 101:  // invalid device, likewise
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

}  // namespace rocmforge
