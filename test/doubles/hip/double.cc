// A libamdhip64.so over host memory, for tests: the module API that native/driver_symbols.h names, strict about what it is
// given, with streams that run behind the caller's back as a GPU's do. A launch runs the simulated-lanes build of the same
// kernel, or, with an emulator, the code object itself. One file because it is built as one library by one command, and
// all of it is the state of one machine's devices.
//
//   ROCMFORGE_DOUBLE_ARCH       gfx1100 (default) or another target that the kernels are built for
//   ROCMFORGE_DOUBLE_KERNELS    folder of built kernels that holds lanes32 and lanes64
//   ROCMFORGE_DOUBLE_EMULATOR   command that serves launches on an emulator instead; see tools/emulator/serve.py
//   ROCMFORGE_DOUBLE_MEMORY     bytes of each device, default 2 GiB
//   ROCMFORGE_DOUBLE_DEVICES    how many there are, default 1; each touches its own memory, and that of peers which it may reach
//   ROCMFORGE_DOUBLE_PEERS      0: they do not reach each other
//   ROCMFORGE_DOUBLE_LOG        file that gets a line for each copy, launch, graph launch and graph instantiated
//   ROCMFORGE_DOUBLE_FAULT      KIND@CALL:N: at the N-th CALL (launch, graph, instantiate, copy, peer, malloc or event, which is
//                               a wait for one) of this process; N+: at each from the N-th on
//                               KIND: error=CODE, illegal, hang, abort, lost, oom
//   ROCMFORGE_DOUBLE_IDLE       1: launches compute nothing, to look at what is launched alone
//   ROCMFORGE_DOUBLE_ONCE       file: the fault happens only if it is there, and takes it away; one of N+ leaves it
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "memory.h"
#include "metadata.h"

namespace double_hip {
namespace {

enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_HANDLE = 400,
  PEER_ACCESS_ENABLED = 704,
  PEER_ACCESS_NOT_ENABLED = 705,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_FAILURE = 719,
};

std::string setting(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// Anything that a correct caller never does: told, and returned as the driver's error.
Result misuse(const std::string& what) {
  std::fprintf(stderr, "hip double: %s\n", what.c_str());
  return INVALID_VALUE;
}

struct Dim3 {
  int x, y, z;
};
struct LanesKernel {
  void (*run)(void* const* params, Dim3 grid, int64_t first, int64_t last);
  int argument_count;
  const int* argument_bytes;
};

struct Module;
struct Function {
  KernelMetadata metadata;
  Module* module;
  const LanesKernel* lanes = nullptr;
};
struct Module {
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::string file;  // a copy of the code object, for the emulator
};

struct LaunchWork {
  Function* function;
  Dim3 grid;
  std::vector<uint64_t> storage;
};

using Job = std::function<void()>;

struct Graph {
  std::vector<LaunchWork> launches;
};

struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool busy = false, ending = false;
  Graph* capturing = nullptr;
  const int device;
  std::thread thread;

  explicit Stream(int on) : device(on), thread([this] { serve(); }) {}
  void push(Job job) {
    std::lock_guard<std::mutex> lock(mutex);
    jobs.push_back(std::move(job));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return jobs.empty() && !busy; });
  }
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ending = true;
      changed.notify_all();
    }
    thread.join();
  }
  void serve() {
    for (;;) {
      Job job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return ending || !jobs.empty(); });
        if (jobs.empty()) return;
        job = std::move(jobs.front());
        jobs.pop_front();
        busy = true;
      }
      job();
      std::lock_guard<std::mutex> lock(mutex);
      busy = false;
      changed.notify_all();
    }
  }
};

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  // Times that it was recorded, and that a stream has come to.
  uint64_t recorded = 0, reached = 0;
  double at_ms = 0;
};

// An emulator that maps the device's memory at the same address: a line of JSON a launch, a line back.
class Emulator {
 public:
  Emulator(const std::string& command, const Memory& device, const Memory& host) {
    int requests[2], answers[2];
    if (pipe(requests) != 0 || pipe(answers) != 0) std::abort();
    const std::string memory = " --memory " + device.place() + " " + host.place();
    if (fork() == 0) {
      dup2(requests[0], 0);
      dup2(answers[1], 1);
      close(requests[1]);
      close(answers[0]);
      execl("/bin/sh", "sh", "-c", (command + memory).c_str(), nullptr);
      _exit(127);
    }
    close(requests[0]);
    close(answers[1]);
    requests_ = fdopen(requests[1], "w");
    answers_ = fdopen(answers[0], "r");
  }
  // Empty, or what went wrong.
  std::string launch(const LaunchWork& work) {
    std::string arguments;
    for (size_t i = 0; i < work.storage.size(); i++) {
      char hex[24];
      std::string bytes;
      for (int b = 0; b < work.function->metadata.argument_bytes[i]; b++) {
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(work.storage[i] >> (8 * b) & 255));
        bytes += hex;
      }
      arguments += (i ? ", " : "") + std::string("{\"hex\": \"") + bytes + "\"}";
    }
    std::fprintf(requests_,
                 "{\"file\": \"%s\", \"kernel\": \"%s\", \"grid\": [%d, %d, %d], \"block\": 256, \"order\": \"fwd\", "
                 "\"budget\": 1000000000, \"arguments\": [%s]}\n",
                 work.function->module->file.c_str(), work.function->metadata.name.c_str(), work.grid.x, work.grid.y,
                 work.grid.z, arguments.c_str());
    std::fflush(requests_);
    char* line = nullptr;
    size_t room = 0;
    if (getline(&line, &room, answers_) < 0) return "the emulator ended";
    const std::string answer(line);
    std::free(line);
    return answer.find("\"error\"") == std::string::npos ? "" : answer;
  }

 private:
  FILE *requests_, *answers_;
};

struct Fault {
  std::string kind, call;
  int code = 0;
  long at = -1;
  bool stays = false;
};

class Runtime {
 public:
  Runtime()
      : architecture(setting("ROCMFORGE_DOUBLE_ARCH", "gfx1100")),
        has_peers(setting("ROCMFORGE_DOUBLE_PEERS", "1") != "0") {
    const uint64_t bytes = std::stoull(setting("ROCMFORGE_DOUBLE_MEMORY", "2147483648"));
    const int devices = std::stoi(setting("ROCMFORGE_DOUBLE_DEVICES", "1"));
    for (int i = 0; i < devices; i++) memories.push_back(std::make_unique<Memory>(bytes, i));
    const std::string log = setting("ROCMFORGE_DOUBLE_LOG", "");
    if (!log.empty()) log_ = std::fopen(log.c_str(), "a");
    const std::string plan = setting("ROCMFORGE_DOUBLE_FAULT", "");
    const size_t at = plan.find('@'), colon = plan.find(':', at == std::string::npos ? 0 : at);
    if (at != std::string::npos && colon != std::string::npos) {
      fault.kind = plan.substr(0, at);
      if (fault.kind.rfind("error=", 0) == 0) fault.code = std::stoi(fault.kind.substr(6));
      fault.call = plan.substr(at + 1, colon - at - 1);
      fault.at = std::stol(plan.substr(colon + 1));
      fault.stays = plan.back() == '+';
    }
    const std::string command = setting("ROCMFORGE_DOUBLE_EMULATOR", "");
    if (!command.empty()) {
      emulator = std::make_unique<Emulator>(command, *memories[0], pinned);
      return;
    }
    const bool wide = architecture.rfind("gfx9", 0) == 0;
    const std::string library = setting("ROCMFORGE_DOUBLE_KERNELS", "") + (wide ? "/lanes64" : "/lanes32") + "/lanes.so";
    lanes = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!lanes) {
      std::fprintf(stderr, "hip double: %s\n", dlerror());
      std::abort();
    }
    take_error = reinterpret_cast<const char* (*)()>(dlsym(lanes, "forge_take_error"));
  }

  // Errors stay: a device that failed fails every call after.
  Result state() const { return static_cast<Result>(sticky.load()); }

  // The error that this call is to return, or SUCCESS. What befalls a launch waits for arm().
  Result count(const std::string& call) {
    if (state() != SUCCESS) return state();
    if (fault.call != call || ++calls_ < fault.at || (calls_ > fault.at && !fault.stays)) return SUCCESS;
    const std::string once = setting("ROCMFORGE_DOUBLE_ONCE", "");
    if (!once.empty() && (fault.stays ? access(once.c_str(), F_OK) : unlink(once.c_str())) != 0) return SUCCESS;
    if (fault.kind == "oom") return OUT_OF_MEMORY;
    if (fault.kind == "lost") sticky = NO_DEVICE;
    if (fault.code != 0) return static_cast<Result>(fault.code);
    is_due_ = true;
    return state();
  }

  // Lets a fault befall the launch that is queued next, and none that is queued already.
  void arm(Stream* stream) {
    if (!is_due_) return;
    is_due_ = false;
    stream->push([this] {
      if (fault.kind == "illegal") fails_next_ = true;
      if (fault.kind == "hang") hangs_next_ = true;
      if (fault.kind == "abort") aborts_next_ = true;
    });
  }

  Memory& memory(int device) { return *memories[device]; }
  int devices() const { return static_cast<int>(memories.size()); }

  void run(const LaunchWork& work) {
    if (aborts_next_) {
      std::fprintf(stderr,
                   "Memory access fault by GPU node-1 (Agent handle: 0x55d0c0ffee00) on address 0x7f0000000000. "
                   "Reason: Page not present or supervisor privilege.\n");
      std::abort();
    }
    if (hangs_next_) {
      for (;;) pause();
    }
    if (fails_next_) sticky = ILLEGAL_ADDRESS;
    if (state() != SUCCESS || idle_) return;
    if (emulator) {
      const std::string error = emulator->launch(work);
      if (!error.empty()) fail(work, error);
      return;
    }
    std::vector<void*> params;
    std::vector<uint64_t> storage = work.storage;
    for (uint64_t& word : storage) params.push_back(&word);
    const int64_t blocks = int64_t{work.grid.x} * work.grid.y * work.grid.z;
    work.function->lanes->run(params.data(), work.grid, 0, blocks);
    if (const char* error = take_error()) fail(work, error);
  }

  void log(const char* what, uint64_t bytes) {
    if (!log_) return;
    std::lock_guard<std::mutex> lock(log_mutex_);
    std::fprintf(log_, "%s %llu\n", what, static_cast<unsigned long long>(bytes));
    std::fflush(log_);
  }

  std::string architecture;
  std::vector<std::unique_ptr<Memory>> memories;
  bool has_peers;
  std::mutex peers_mutex;
  std::set<std::pair<int, int>> peers;  // who may copy to whom
  void* lanes = nullptr;
  const char* (*take_error)() = nullptr;
  std::unique_ptr<Emulator> emulator;
  Fault fault;
  std::atomic<int> sticky{SUCCESS};
  // Memory of the host; kernels read and write it, too.
  Memory pinned{uint64_t{1} << 30, Memory::HOST};

 private:
  void fail(const LaunchWork& work, const std::string& error) {
    std::fprintf(stderr, "hip double: %s: %s\n", work.function->metadata.name.c_str(), error.c_str());
    sticky = LAUNCH_FAILURE;
  }

  const bool idle_ = setting("ROCMFORGE_DOUBLE_IDLE", "") == "1";
  long calls_ = 0;
  bool is_due_ = false;
  std::atomic<bool> fails_next_{false}, hangs_next_{false}, aborts_next_{false};
  std::mutex log_mutex_;
  FILE* log_ = nullptr;
};

Runtime& runtime() {
  static Runtime* instance = new Runtime();
  return *instance;
}

thread_local int bound = -1;

// Condition of every call but the first few: a device chosen by this thread.
Result usable() {
  if (bound < 0) return misuse("a thread that chose no device calls"), INVALID_DEVICE;
  return runtime().state();
}

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

bool is_pinned(const void* address, uint64_t bytes) {
  return runtime().pinned.holds(reinterpret_cast<uint64_t>(address), bytes);
}

bool is_readable(const void* address, size_t bytes) {
  char copy[64];
  iovec local{copy, bytes}, remote{const_cast<void*>(address), bytes};
  return bytes <= sizeof copy && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// True if memory is of the device of a stream.
bool holds(void* stream, const void* address, uint64_t bytes) {
  return runtime().memory(static_cast<Stream*>(stream)->device).holds(reinterpret_cast<uint64_t>(address), bytes);
}

// True if kernels of a stream may use it: its device's memory, that of peers that the device may reach, and pinned.
bool reaches(void* stream, const void* address) {
  if (holds(stream, address, 0) || is_pinned(address, 0)) return true;
  std::lock_guard<std::mutex> lock(runtime().peers_mutex);
  for (const auto& [device, peer] : runtime().peers) {
    const bool is_own = device == static_cast<Stream*>(stream)->device;
    if (is_own && runtime().memory(peer).holds(reinterpret_cast<uint64_t>(address), 0)) return true;
  }
  return false;
}

#define REQUIRE_USABLE() \
  if (const Result refused = usable(); refused != SUCCESS) return refused

}  // namespace
}  // namespace double_hip

using namespace double_hip;

#define HIP extern "C" __attribute__((visibility("default"))) int

HIP hipInit(unsigned flags) { return flags == 0 ? SUCCESS : INVALID_VALUE; }
HIP hipDriverGetVersion(int* version) { return *version = 60000000, SUCCESS; }
HIP hipGetDeviceCount(int* count) { return *count = runtime().devices(), SUCCESS; }
HIP hipDeviceGet(int* device, int ordinal) {
  return *device = ordinal, ordinal >= 0 && ordinal < runtime().devices() ? SUCCESS : INVALID_DEVICE;
}
HIP hipDeviceGetName(char* name, int bytes, int) {
  return std::snprintf(name, bytes, "%s", runtime().emulator ? "emulated device" : "test double"), SUCCESS;
}
HIP hipDeviceTotalMem(size_t* bytes, int device) { return *bytes = runtime().memory(device).total(), SUCCESS; }
HIP hipDeviceGetPCIBusId(char* id, int bytes, int device) {
  return std::snprintf(id, bytes, "0000:ff:1f.%d", 7 - device), SUCCESS;
}
HIP hipDeviceGetAttribute(int* value, int, int) { return *value = 1, SUCCESS; }
HIP hipGetDevicePropertiesR0600(void* properties, int) {
  // The offset of the name in ROCm 6's layout does not matter to a caller that looks for it.
  constexpr size_t SOMEWHERE = 1160;
  std::snprintf(static_cast<char*>(properties) + SOMEWHERE, 256, "%s:sramecc+:xnack-", runtime().architecture.c_str());
  return SUCCESS;
}
HIP hipSetDevice(int ordinal) {
  bound = ordinal >= 0 && ordinal < runtime().devices() ? ordinal : -1;
  return bound >= 0 ? SUCCESS : INVALID_DEVICE;
}
HIP hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return *can = runtime().has_peers && device != peer, SUCCESS;
}
HIP hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  REQUIRE_USABLE();
  if (flags != 0 || peer == bound || peer < 0 || peer >= runtime().devices()) return misuse("no peer of that number");
  if (!runtime().has_peers) return misuse("a peer that is not reached");
  std::lock_guard<std::mutex> lock(runtime().peers_mutex);
  return runtime().peers.insert({bound, peer}).second ? SUCCESS : PEER_ACCESS_ENABLED;
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorName(int result) {
  switch (result) {
    case SUCCESS: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case INVALID_IMAGE: return "hipErrorInvalidImage";
    case INVALID_HANDLE: return "hipErrorInvalidHandle";
    case NOT_FOUND: return "hipErrorNotFound";
    case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
    case LAUNCH_FAILURE: return "hipErrorLaunchFailure";
    default: return "hipErrorUnknown";
  }
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorString(int) { return "of the test double"; }

HIP hipMemGetInfo(size_t* free, size_t* total) {
  REQUIRE_USABLE();
  *free = runtime().memory(bound).free_bytes();
  *total = runtime().memory(bound).total();
  return SUCCESS;
}
HIP hipMalloc(void** address, size_t bytes) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("malloc"); injected != SUCCESS) return injected;
  if (bytes == 0) return misuse("an allocation of nothing");
  const uint64_t at = runtime().memory(bound).allocate(bytes);
  *address = reinterpret_cast<void*>(at);
  return at == 0 ? OUT_OF_MEMORY : SUCCESS;
}
HIP hipFree(void* address) {
  REQUIRE_USABLE();
  return runtime().memory(bound).release(reinterpret_cast<uint64_t>(address)) ? SUCCESS : misuse("freed what is not allocated");
}
// 64 bytes that name the memory of this process, as HIP's do.
struct IpcHandle {
  char bytes[64];
};
HIP hipIpcGetMemHandle(IpcHandle* handle, void* address) {
  REQUIRE_USABLE();
  const std::string place = runtime().memory(bound).exported(reinterpret_cast<uint64_t>(address));
  if (place.empty() || place.size() >= sizeof(handle->bytes)) return misuse("a handle of what is not allocated");
  std::memset(handle->bytes, 0, sizeof(handle->bytes));
  std::memcpy(handle->bytes, place.data(), place.size());
  return SUCCESS;
}
HIP hipIpcOpenMemHandle(void** address, IpcHandle handle, unsigned flags) {
  REQUIRE_USABLE();
  if (flags != 1) return misuse("a handle opened without hipIpcMemLazyEnablePeerAccess");
  const uint64_t at = runtime().memory(bound).import(handle.bytes);
  *address = reinterpret_cast<void*>(at);
  return at == 0 ? INVALID_HANDLE : SUCCESS;
}
HIP hipIpcCloseMemHandle(void* address) {
  REQUIRE_USABLE();
  return runtime().memory(bound).close_imported(reinterpret_cast<uint64_t>(address)) ? SUCCESS
                                                                                     : misuse("closed what is not imported");
}
HIP hipHostMalloc(void** address, size_t bytes, unsigned) {
  REQUIRE_USABLE();
  const uint64_t at = runtime().pinned.allocate(bytes);
  *address = reinterpret_cast<void*>(at);
  return at == 0 ? OUT_OF_MEMORY : SUCCESS;
}
HIP hipHostFree(void* address) {
  return runtime().pinned.release(reinterpret_cast<uint64_t>(address)) ? SUCCESS : misuse("freed what is not pinned");
}

HIP hipMemcpyHtoDAsync(void* to, void* from, size_t bytes, void* stream) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("copy"); injected != SUCCESS) return injected;
  if (!holds(stream, to, bytes)) return misuse("a copy to memory not allocated");
  if (!is_pinned(from, bytes)) return misuse("an asynchronous copy from memory that is not pinned");
  if (static_cast<Stream*>(stream)->capturing) return misuse("a copy in a capture");
  runtime().log("in", bytes);
  // Read when its turn comes: a caller that changes the memory before is found out.
  static_cast<Stream*>(stream)->push([=] { std::memcpy(to, from, bytes); });
  return SUCCESS;
}
HIP hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, void* stream) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("copy"); injected != SUCCESS) return injected;
  if (!holds(stream, from, bytes)) return misuse("a copy from memory not allocated");
  if (static_cast<Stream*>(stream)->capturing) return misuse("a copy in a capture");
  runtime().log("out", bytes);
  static_cast<Stream*>(stream)->push([=] { std::memcpy(to, from, bytes); });
  // Memory that is not pinned goes through the driver's own: the call waits, as HIP's does.
  if (!is_pinned(to, bytes)) static_cast<Stream*>(stream)->drain();
  return runtime().state();
}
HIP hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, void* stream) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("copy"); injected != SUCCESS) return injected;
  if (!holds(stream, to, bytes) || !holds(stream, from, bytes)) return misuse("a copy of memory not allocated");
  if (static_cast<Stream*>(stream)->capturing) return misuse("a copy in a capture");
  runtime().log("within", bytes);
  static_cast<Stream*>(stream)->push([=] { std::memcpy(to, from, bytes); });
  return SUCCESS;
}
HIP hipMemcpyPeerAsync(void* to, int to_device, void* from, int from_device, size_t bytes, void* stream) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("peer"); injected != SUCCESS) return injected;
  if (static_cast<Stream*>(stream)->device != from_device) return misuse("a copy to a peer on another one's stream");
  if (!holds(stream, from, bytes)) return misuse("a copy from memory not allocated");
  if (!runtime().memory(to_device).holds(reinterpret_cast<uint64_t>(to), bytes)) return misuse("a copy to memory that the peer has not allocated");
  if (static_cast<Stream*>(stream)->capturing) return misuse("a copy in a capture");
  {
    std::lock_guard<std::mutex> lock(runtime().peers_mutex);
    // HIP's copies these through the host; here nobody wants that unawares.
    if (runtime().peers.count({from_device, to_device}) == 0) return PEER_ACCESS_NOT_ENABLED;
  }
  runtime().log("peer", bytes);
  static_cast<Stream*>(stream)->push([=] { std::memcpy(to, from, bytes); });
  return SUCCESS;
}
HIP hipMemsetD8Async(void* to, unsigned char value, size_t count, void* stream) {
  REQUIRE_USABLE();
  if (!holds(stream, to, count)) return misuse("filled memory not allocated");
  static_cast<Stream*>(stream)->push([=] { std::memset(to, value, count); });
  return SUCCESS;
}

HIP hipStreamCreateWithFlags(void** stream, unsigned) {
  REQUIRE_USABLE();
  return *stream = new Stream(bound), SUCCESS;
}
HIP hipStreamDestroy(void* stream) {
  static_cast<Stream*>(stream)->end();
  delete static_cast<Stream*>(stream);
  return SUCCESS;
}
HIP hipStreamSynchronize(void* stream) {
  REQUIRE_USABLE();
  static_cast<Stream*>(stream)->drain();
  return runtime().state();
}
HIP hipEventCreateWithFlags(void** event, unsigned) { return *event = new Event(), SUCCESS; }
HIP hipEventDestroy(void* event) { return delete static_cast<Event*>(event), SUCCESS; }
HIP hipEventRecord(void* handle, void* stream) {
  REQUIRE_USABLE();
  auto* event = static_cast<Event*>(handle);
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->recorded++;
  }
  static_cast<Stream*>(stream)->push([event] {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->reached++;
    event->at_ms = now_ms();
    event->changed.notify_all();
  });
  return SUCCESS;
}
HIP hipStreamWaitEvent(void* stream, void* handle, unsigned flags) {
  REQUIRE_USABLE();
  if (flags != 0) return misuse("a wait with flags");
  auto* event = static_cast<Event*>(handle);
  uint64_t awaited = 0;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    awaited = event->recorded;
  }
  static_cast<Stream*>(stream)->push([event, awaited] {
    std::unique_lock<std::mutex> lock(event->mutex);
    event->changed.wait(lock, [&] { return event->reached >= awaited; });
  });
  return SUCCESS;
}
HIP hipEventSynchronize(void* handle) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("event"); injected != SUCCESS) return injected;
  auto* event = static_cast<Event*>(handle);
  std::unique_lock<std::mutex> lock(event->mutex);
  event->changed.wait(lock, [event] { return event->reached == event->recorded; });
  return runtime().state();
}
HIP hipEventElapsedTime(float* milliseconds, void* start, void* end) {
  *milliseconds = static_cast<float>(static_cast<Event*>(end)->at_ms - static_cast<Event*>(start)->at_ms);
  return SUCCESS;
}

HIP hipModuleLoadData(void** module, const void* image) {
  REQUIRE_USABLE();
  auto loaded = std::make_unique<Module>();
  try {
    for (auto& [name, metadata] : read_kernels(static_cast<const uint8_t*>(image))) {
      auto function = std::make_unique<Function>(Function{metadata, loaded.get()});
      if (runtime().lanes) {
        function->lanes = static_cast<const LanesKernel*>(dlsym(runtime().lanes, name.c_str()));
        if (!function->lanes) return misuse("the lanes build holds no " + name), INVALID_IMAGE;
      }
      loaded->functions[name] = std::move(function);
    }
  } catch (const std::exception& error) {
    return misuse(error.what()), INVALID_IMAGE;
  }
  if (runtime().emulator) {
    // The caller tells no size: the section headers come last.
    const auto* bytes = static_cast<const uint8_t*>(image);
    uint64_t headers = 0;
    uint16_t entry = 0, count = 0;
    std::memcpy(&headers, bytes + 0x28, 8);
    std::memcpy(&entry, bytes + 0x3a, 2);
    std::memcpy(&count, bytes + 0x3c, 2);
    static int number = 0;
    const char* folder = std::getenv("TMPDIR");
    loaded->file = std::string(folder ? folder : "/tmp") + "/rocmforge-double-" + std::to_string(getpid()) + "-" +
                   std::to_string(number++) + ".hsaco";
    FILE* file = std::fopen(loaded->file.c_str(), "wb");
    if (!file || std::fwrite(image, 1, headers + uint64_t{entry} * count, file) == 0) return INVALID_IMAGE;
    std::fclose(file);
  }
  return *module = loaded.release(), SUCCESS;
}
HIP hipModuleUnload(void* module) {
  auto* loaded = static_cast<Module*>(module);
  if (!loaded->file.empty()) unlink(loaded->file.c_str());
  return delete loaded, SUCCESS;
}
HIP hipModuleGetFunction(void** function, void* module, const char* name) {
  REQUIRE_USABLE();
  auto& functions = static_cast<Module*>(module)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return NOT_FOUND;
  return *function = found->second.get(), SUCCESS;
}
HIP hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned, void* stream, void** params, void** extra) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("launch"); injected != SUCCESS) return injected;
  auto* kernel = static_cast<Function*>(function);
  if (static_cast<Stream*>(stream)->device != bound) return misuse("a launch on another device's stream");
  if (extra || block_x != 256 || block_y != 1 || block_z != 1) return misuse("a launch of another shape than contracts say");
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535) return misuse("a grid of " + kernel->metadata.name);
  LaunchWork work{kernel, {static_cast<int>(grid_x), static_cast<int>(grid_y), static_cast<int>(grid_z)}, {}};
  for (size_t i = 0; i < kernel->metadata.argument_bytes.size(); i++) {
    const int bytes = kernel->metadata.argument_bytes[i];
    if (!is_readable(params[i], bytes)) return misuse(kernel->metadata.name + ": an argument without storage");
    uint64_t word = 0;
    std::memcpy(&word, params[i], bytes);
    if (bytes == 8 && !reaches(stream, reinterpret_cast<void*>(word))) return misuse(kernel->metadata.name + ": a pointer to memory not allocated");
    work.storage.push_back(word);
  }
  auto* on = static_cast<Stream*>(stream);
  if (on->capturing) {
    on->capturing->launches.push_back(work);
    return SUCCESS;
  }
  runtime().log(kernel->metadata.name.c_str(), 0);
  runtime().arm(on);
  on->push([work] { runtime().run(work); });
  return SUCCESS;
}

HIP hipStreamBeginCapture(void* stream, int) {
  REQUIRE_USABLE();
  static_cast<Stream*>(stream)->capturing = new Graph();
  return SUCCESS;
}
HIP hipStreamEndCapture(void* stream, void** graph) {
  auto* on = static_cast<Stream*>(stream);
  if (!on->capturing) return misuse("ended no capture");
  *graph = on->capturing;
  on->capturing = nullptr;
  return SUCCESS;
}
HIP hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const Result injected = runtime().count("instantiate"); injected != SUCCESS) return injected;
  runtime().log("instantiate", static_cast<Graph*>(graph)->launches.size());
  return *executable = new Graph(*static_cast<Graph*>(graph)), SUCCESS;
}
HIP hipGraphLaunch(void* executable, void* stream) {
  REQUIRE_USABLE();
  if (const Result injected = runtime().count("graph"); injected != SUCCESS) return injected;
  runtime().log("graph", static_cast<Graph*>(executable)->launches.size());
  runtime().arm(static_cast<Stream*>(stream));
  for (const LaunchWork& work : static_cast<Graph*>(executable)->launches) {
    static_cast<Stream*>(stream)->push([work] { runtime().run(work); });
  }
  return SUCCESS;
}
HIP hipGraphExecDestroy(void* executable) { return delete static_cast<Graph*>(executable), SUCCESS; }
HIP hipGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), SUCCESS; }
