// Memory that outlives a process: the gateway makes it and passes its descriptor to one executor after the other.
#pragma once

#include <napi.h>

namespace rocmforge {

// (name) → descriptor of empty memory (memfd_create(2)), closed when the process executes another program.
Napi::Value create_shared_memory(const Napi::CallbackInfo& info);
// (descriptor, offset, bytes) → address. Grows the memory where it ends sooner; the new part is zero.
Napi::Value map_shared_memory(const Napi::CallbackInfo& info);
// (address, bytes)
void unmap_shared_memory(const Napi::CallbackInfo& info);
// (descriptor): its size is final. A process that maps it later can rely on its size.
void seal_shared_memory(const Napi::CallbackInfo& info);

}  // namespace rocmforge
