// What the executor needs of a device. One implementation a driver; src/executor/device/addon.ts describes what of it
// JavaScript sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace rocmforge {

// A failure of the device or its driver. `sticky`: nothing on this device can be trusted any more in this process.
struct DeviceError : std::runtime_error {
  explicit DeviceError(const std::string& message, bool is_sticky = false)
      : std::runtime_error(message), sticky(is_sticky) {}
  bool sticky;
};

struct Dim3 {
  int x = 1, y = 1, z = 1;
};

// A kernel that was found in a code object, with the size of each of its arguments in bytes.
struct Kernel {
  std::string name;
  std::vector<int> argument_bytes;
};

class Device {
 public:
  virtual ~Device() = default;

  // What the device calls itself, for people to read.
  virtual std::string description() const = 0;
  // Lanes a wave and threads a block that the kernels were built for.
  virtual int wave() const = 0;
  virtual int block() const = 0;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* address) = 0;
  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;

  // Throws DeviceError when no code object holds it. Valid as long as the device is.
  virtual const Kernel* kernel(const std::string& name) = 0;
  // params[i] points at the storage of argument i.
  virtual void launch(const Kernel* kernel, Dim3 grid, void* const* params) = 0;
  // Returns when everything launched has ended.
  virtual void synchronize() = 0;
};

}  // namespace rocmforge
