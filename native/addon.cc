// Interface of native/ for JavaScript: see Addon in src/executor/device/addon.ts.
#include <errno.h>
#include <napi.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>

#include "constraints/vocabulary_object.h"
#include "device_object.h"
#include "event_loop.h"
#include "fault_record.h"
#include "host_device.h"
#include "link_object.h"
#include "mapped_file.h"
#include "nvml.h"
#include "probe_gpu.h"
#include "service_manager.h"
#include "shared_memory.h"
#include "vendor_blas.h"

namespace {

// The kernel kills this process when the thread that started it ends, however that happens.
void die_with_parent(const Napi::CallbackInfo&) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

Napi::Value host_level(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), rocmforge::host_level());
}

void open_fault_record(const Napi::CallbackInfo& info) {
  try {
    rocmforge::FaultRecord::instance().open(info[0].As<Napi::String>());
  } catch (const rocmforge::DeviceError& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

void stamp_phase(const Napi::CallbackInfo& info) {
  rocmforge::FaultRecord::instance().phase(info[0].As<Napi::Number>().Uint32Value());
}

// (descriptor) → whether this process has the lock of the file now; nobody waits. Closing the descriptor gives it up.
Napi::Value lock_file(const Napi::CallbackInfo& info) {
  int descriptor = info[0].As<Napi::Number>().Int32Value();
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return Napi::Boolean::New(info.Env(), false);
    throw Napi::Error::New(info.Env(), std::string("flock: ") + strerror(errno));
  }
  return Napi::Boolean::New(info.Env(), true);
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("Device", rocmforge::DeviceObject::define(env));
  // Devices make links.
  env.SetInstanceData(new rocmforge::AddonData{Napi::Persistent(rocmforge::LinkObject::define(env))});
  exports.Set("EventLoopMonitor", rocmforge::EventLoopMonitor::define(env));
  exports.Set("MappedFile", rocmforge::MappedFile::define(env));
  exports.Set("probeGpu", Napi::Function::New<rocmforge::probe_gpu>(env));
  exports.Set("nvmlStats", Napi::Function::New<rocmforge::nvml_stats>(env));
  exports.Set("timeVendorProduct", Napi::Function::New<rocmforge::time_vendor_product>(env));
  exports.Set("hostLevel", Napi::Function::New<host_level>(env));
  exports.Set("dieWithParent", Napi::Function::New<die_with_parent>(env));
  exports.Set("openFaultRecord", Napi::Function::New<open_fault_record>(env));
  exports.Set("stampPhase", Napi::Function::New<stamp_phase>(env));
  exports.Set("notifyServiceManager", Napi::Function::New<rocmforge::notify_service_manager>(env));
  rocmforge::constraints::define_mask_classes(env, exports);
  exports.Set("createSharedMemory", Napi::Function::New<rocmforge::create_shared_memory>(env));
  exports.Set("mapSharedMemory", Napi::Function::New<rocmforge::map_shared_memory>(env));
  exports.Set("unmapSharedMemory", Napi::Function::New<rocmforge::unmap_shared_memory>(env));
  exports.Set("sealSharedMemory", Napi::Function::New<rocmforge::seal_shared_memory>(env));
  exports.Set("lockFile", Napi::Function::New<lock_file>(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(rocmforge, init)
