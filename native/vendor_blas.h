// The vendor's matrix library, to time its products beside ours. Opened by dlopen; nothing that serves uses it.
#pragma once

#include <napi.h>

namespace rocmforge {

// timeVendorProduct(platform, ordinal, library, product, repeats): see Addon in src/executor/device/addon.ts.
Napi::Value time_vendor_product(const Napi::CallbackInfo& info);

}  // namespace rocmforge
