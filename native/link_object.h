// The JavaScript face of a DeviceLink: see NativeLink in src/executor/device/addon.ts.
#pragma once

#include <napi.h>

#include <memory>

#include "device_link.h"

namespace rocmforge {

// State that the addon keeps of one JavaScript environment.
struct AddonData {
  Napi::FunctionReference link;
};

class LinkObject : public Napi::ObjectWrap<LinkObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit LinkObject(const Napi::CallbackInfo& info);
  ~LinkObject() override;

  // Throws a JavaScript error once it is closed.
  DeviceLink& link(Napi::Env env);

 private:
  void close(const Napi::CallbackInfo& info);

  // They outlive what lies between them.
  Napi::ObjectReference from_, to_;
  std::unique_ptr<DeviceLink> link_;
};

}  // namespace rocmforge
