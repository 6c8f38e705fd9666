// Compiled, never run: each field of the Driver table has the prototype that AMD's header declares, where handles and
// device addresses are any word of 64 bits and enumerations any of 32.
#include <hip/hip_runtime_api.h>

#include <type_traits>

#include "../../native/driver.h"

namespace {

template <class T>
struct Word {
  using type = T;
};
template <class T>
  requires(std::is_pointer_v<T> || (std::is_integral_v<T> && sizeof(T) == 8))
struct Word<T> {
  using type = void*;
};
template <class T>
  requires(std::is_enum_v<T> || (std::is_integral_v<T> && sizeof(T) == 4))
struct Word<T> {
  using type = int;
};

template <class T>
struct Abi;
template <class Result, class... Arguments>
struct Abi<Result (*)(Arguments...)> {
  using type = typename Word<Result>::type (*)(typename Word<Arguments>::type...);
};

template <class Field, class Declared>
constexpr bool same = std::is_same_v<typename Abi<Field>::type, typename Abi<Declared>::type>;

using rocmforge::Driver;
#define CHECK(field, function) static_assert(same<decltype(Driver::field), decltype(&function)>, #function);
CHECK(init, hipInit)
CHECK(driver_get_version, hipDriverGetVersion)
CHECK(device_get_count, hipGetDeviceCount)
CHECK(device_get, hipDeviceGet)
CHECK(device_get_name, hipDeviceGetName)
CHECK(device_total_memory, hipDeviceTotalMem)
CHECK(device_get_pci_bus_id, hipDeviceGetPCIBusId)
CHECK(device_get_attribute, hipDeviceGetAttribute)
CHECK(memory_get_info, hipMemGetInfo)
CHECK(memory_free, hipFree)
CHECK(host_free, hipHostFree)
CHECK(copy_host_to_device, hipMemcpyHtoDAsync)
CHECK(copy_device_to_host, hipMemcpyDtoHAsync)
CHECK(copy_on_device, hipMemcpyDtoDAsync)
CHECK(can_access_peer, hipDeviceCanAccessPeer)
CHECK(fill_bytes, hipMemsetD8Async)
CHECK(stream_create, hipStreamCreateWithFlags)
CHECK(stream_destroy, hipStreamDestroy)
CHECK(stream_synchronize, hipStreamSynchronize)
CHECK(stream_wait_event, hipStreamWaitEvent)
CHECK(event_create, hipEventCreateWithFlags)
CHECK(event_destroy, hipEventDestroy)
CHECK(event_record, hipEventRecord)
CHECK(event_synchronize, hipEventSynchronize)
CHECK(event_elapsed_ms, hipEventElapsedTime)
CHECK(module_load_data, hipModuleLoadData)
CHECK(module_unload, hipModuleUnload)
CHECK(module_get_function, hipModuleGetFunction)
CHECK(launch_kernel, hipModuleLaunchKernel)
CHECK(stream_begin_capture, hipStreamBeginCapture)
CHECK(stream_end_capture, hipStreamEndCapture)
CHECK(graph_instantiate, hipGraphInstantiateWithFlags)
CHECK(graph_launch, hipGraphLaunch)
CHECK(graph_exec_destroy, hipGraphExecDestroy)
CHECK(graph_destroy, hipGraphDestroy)

// The handle is passed by value, as so many bytes.
CHECK(memory_close, hipIpcCloseMemHandle)
static_assert(sizeof(rocmforge::MemoryHandle) == sizeof(hipIpcMemHandle_t) && HIP_IPC_HANDLE_SIZE == 64);
static_assert(std::is_same_v<decltype(&hipIpcGetMemHandle), hipError_t (*)(hipIpcMemHandle_t*, void*)>);
static_assert(
    std::is_same_v<decltype(&hipIpcOpenMemHandle), hipError_t (*)(void**, hipIpcMemHandle_t, unsigned)>);

// Overloaded for C++: the C declaration is the one meant.
static_assert(same<decltype(Driver::memory_allocate), hipError_t (*)(void**, size_t)>);
static_assert(std::is_same_v<decltype(static_cast<hipError_t (*)(void**, size_t)>(&hipMalloc)), hipError_t (*)(void**, size_t)>);
static_assert(std::is_same_v<decltype(static_cast<hipError_t (*)(void**, size_t, unsigned)>(&hipHostMalloc)),
                             hipError_t (*)(void**, size_t, unsigned)>);
static_assert(same<decltype(Driver::host_allocate), hipError_t (*)(void**, size_t, unsigned)>);

// Functions that only HIP's side of the table has.
static_assert(std::is_same_v<decltype(&hipDeviceEnablePeerAccess), hipError_t (*)(int, unsigned)>);
static_assert(std::is_same_v<decltype(&hipMemcpyPeerAsync),
                             hipError_t (*)(void*, int, const void*, int, size_t, hipStream_t)>);

// Constants that the code compares results and attributes with.
static_assert(hipErrorOutOfMemory == rocmforge::DRIVER_OUT_OF_MEMORY);
static_assert(hipErrorECCNotCorrectable == 214 && hipErrorIllegalAddress == 700 && hipErrorLaunchTimeOut == 702);
static_assert(hipErrorAssert == 710 && hipErrorLaunchFailure == 719 && hipErrorUnknown == 999);
static_assert(hipErrorPeerAccessAlreadyEnabled == rocmforge::DRIVER_PEER_ACCESS_ENABLED);
static_assert(hipEventDisableTiming == 2 && hipHostMallocPortable == 1);
static_assert(hipErrorNoDevice == 100 && hipErrorInvalidDevice == 101);
static_assert(hipDeviceAttributeMultiprocessorCount == 63);
static_assert(hipStreamNonBlocking == 1 && hipStreamCaptureModeRelaxed == 2);

}  // namespace
