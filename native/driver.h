// The module-level calls that HIP and CUDA's driver API share, as one table. Both libraries are opened by dlopen, so
// that the addon starts on a machine with neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rocmforge {

// hipError_t or CUresult; both have 0 for success, and the same numbers for what this project tells apart.
using DriverResult = int;
constexpr DriverResult DRIVER_SUCCESS = 0;
constexpr DriverResult DRIVER_INVALID_VALUE = 1;
constexpr DriverResult DRIVER_OUT_OF_MEMORY = 2;
constexpr DriverResult DRIVER_PEER_ACCESS_ENABLED = 704;

// Device addresses, streams, events, modules, functions and graphs are pointers or words of 64 bits in both.
using DeviceAddress = uint64_t;
using DriverHandle = void*;

// hipIpcMemHandle_t or CUipcMemHandle: names an allocation to other processes.
struct MemoryHandle {
  char bytes[64];
};

struct Driver {
  std::string platform;  // "hip" or "cuda"
  int device = 0;        // what open_device opened, as the driver names it
  std::string library;   // the file it was loaded from

  DriverResult (*init)(unsigned flags) = nullptr;
  DriverResult (*driver_get_version)(int* version) = nullptr;
  DriverResult (*device_get_count)(int* count) = nullptr;
  DriverResult (*device_get)(int* device, int ordinal) = nullptr;
  DriverResult (*device_get_name)(char* name, int bytes, int device) = nullptr;
  DriverResult (*device_total_memory)(size_t* bytes, int device) = nullptr;
  DriverResult (*device_get_pci_bus_id)(char* id, int bytes, int device) = nullptr;
  DriverResult (*device_get_attribute)(int* value, int attribute, int device) = nullptr;

  DriverResult (*memory_get_info)(size_t* free, size_t* total) = nullptr;
  DriverResult (*memory_allocate)(DeviceAddress* address, size_t bytes) = nullptr;
  DriverResult (*memory_free)(DeviceAddress address) = nullptr;
  DriverResult (*memory_export)(MemoryHandle* handle, DeviceAddress address) = nullptr;
  DriverResult (*memory_import)(DeviceAddress* address, MemoryHandle handle, unsigned flags) = nullptr;
  DriverResult (*memory_close)(DeviceAddress address) = nullptr;
  DriverResult (*host_allocate)(void** address, size_t bytes, unsigned flags) = nullptr;
  DriverResult (*host_free)(void* address) = nullptr;
  DriverResult (*copy_host_to_device)(DeviceAddress to, const void* from, size_t bytes, DriverHandle stream) = nullptr;
  DriverResult (*copy_device_to_host)(void* to, DeviceAddress from, size_t bytes, DriverHandle stream) = nullptr;
  DriverResult (*copy_on_device)(DeviceAddress to, DeviceAddress from, size_t bytes, DriverHandle stream) = nullptr;
  DriverResult (*can_access_peer)(int* can, int device, int peer) = nullptr;
  DriverResult (*fill_bytes)(DeviceAddress to, unsigned char value, size_t count, DriverHandle stream) = nullptr;

  DriverResult (*stream_create)(DriverHandle* stream, unsigned flags) = nullptr;
  DriverResult (*stream_destroy)(DriverHandle stream) = nullptr;
  DriverResult (*stream_synchronize)(DriverHandle stream) = nullptr;
  DriverResult (*stream_wait_event)(DriverHandle stream, DriverHandle event, unsigned flags) = nullptr;
  DriverResult (*event_create)(DriverHandle* event, unsigned flags) = nullptr;
  DriverResult (*event_destroy)(DriverHandle event) = nullptr;
  DriverResult (*event_record)(DriverHandle event, DriverHandle stream) = nullptr;
  DriverResult (*event_synchronize)(DriverHandle event) = nullptr;
  DriverResult (*event_elapsed_ms)(float* milliseconds, DriverHandle start, DriverHandle end) = nullptr;

  DriverResult (*module_load_data)(DriverHandle* module, const void* image) = nullptr;
  DriverResult (*module_unload)(DriverHandle module) = nullptr;
  DriverResult (*module_get_function)(DriverHandle* function, DriverHandle module, const char* name) = nullptr;
  DriverResult (*launch_kernel)(DriverHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared_bytes,
                                DriverHandle stream, void** params, void** extra) = nullptr;

  DriverResult (*stream_begin_capture)(DriverHandle stream, int mode) = nullptr;
  DriverResult (*stream_end_capture)(DriverHandle stream, DriverHandle* graph) = nullptr;
  DriverResult (*graph_instantiate)(DriverHandle* executable, DriverHandle graph, unsigned long long flags) = nullptr;
  DriverResult (*graph_launch)(DriverHandle executable, DriverHandle stream) = nullptr;
  DriverResult (*graph_exec_destroy)(DriverHandle executable) = nullptr;
  DriverResult (*graph_destroy)(DriverHandle graph) = nullptr;

  // Differences between the two drivers. `open_device` makes the device usable in this process, `bind_thread` by the
  // calling thread: HIP has a current device a thread, CUDA a current context, of which the primary one is shared and
  // retained.
  virtual ~Driver() = default;
  virtual DriverResult open_device(int ordinal) = 0;
  virtual DriverResult bind_thread() = 0;
  virtual DriverResult close_device() = 0;
  // Lets the device of the calling thread, which this driver has opened, use the memory of another one of its platform.
  virtual DriverResult enable_peer_access(const Driver& peer) = 0;
  // Copies from this driver's device to another one's, whose memory it may use.
  virtual DriverResult copy_to_peer(DeviceAddress to, const Driver& peer, DeviceAddress from, size_t bytes,
                                    DriverHandle stream) = 0;
  // Launches a kernel right behind another one, whose end it waits for by itself: where the device can, it begins
  // before that one has ended.
  virtual DriverResult launch_behind(DriverHandle function, const unsigned (&grid)[3], unsigned block,
                                     unsigned dynamic_shared_bytes, DriverHandle stream, void** params) {
    return launch_kernel(function, grid[0], grid[1], grid[2], block, 1, 1, dynamic_shared_bytes, stream, params,
                         nullptr);
  }
  // Lets a kernel ask for so much shared memory at its launch.
  virtual DriverResult allow_shared_bytes(DriverHandle, unsigned) { return DRIVER_SUCCESS; }
  // "gfx1100" or "sm_90": the target whose code objects it runs.
  virtual DriverResult architecture(int ordinal, std::string* name) = 0;
  virtual std::string error_text(DriverResult result) const = 0;
  virtual int multiprocessors(int device) const = 0;
};

// Opens libamdhip64.so (of ROCM_PATH, then as the loader finds it) or libcuda.so.1 and fills the table. Throws
// DeviceError with the loader's words, or naming the symbol that is missing.
Driver* load_hip_driver();
Driver* load_cuda_driver();

// True if an error leaves the whole context unusable: launch failures, illegal addresses, uncorrectable memory errors.
bool is_sticky(DriverResult result);

}  // namespace rocmforge
