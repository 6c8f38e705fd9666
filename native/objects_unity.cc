// Objects of JavaScript in one translation unit: for each by itself the compiler would take longer over napi.h than
// over what the file states.
#include "addon.cc"
#include "event_loop.cc"
#include "link_object.cc"
#include "mapped_file.cc"
#include "nvml.cc"
#include "probe_gpu.cc"
#include "service_manager.cc"
#include "shared_memory.cc"
#include "vendor_blas.cc"
