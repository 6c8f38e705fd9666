#include "link_object.h"

#include "device_object.h"

namespace rocmforge {

Napi::Function LinkObject::define(Napi::Env env) {
  return DefineClass(env, "Link", {InstanceMethod<&LinkObject::close>("close")});
}

LinkObject::LinkObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<LinkObject>(info) {
  const Napi::Object from = info[0].As<Napi::Object>(), to = info[1].As<Napi::Object>();
  const Napi::Object options = info[2].As<Napi::Object>();
  const Napi::Array addresses = options.Get("memory").As<Napi::Array>();
  const auto bytes = static_cast<size_t>(options.Get("bytes").As<Napi::Number>().DoubleValue());
  const bool in_turn = options.Get("inTurn").ToBoolean();
  std::vector<void*> memory;
  for (uint32_t i = 0; i < addresses.Length(); i++) memory.push_back(pointer(addresses.Get(i)));
  DeviceObject* sender = Napi::ObjectWrap<DeviceObject>::Unwrap(from);
  Device& receiver = Napi::ObjectWrap<DeviceObject>::Unwrap(to)->device();
  sender->on_device(info.Env(), [&] {
    std::vector<std::unique_ptr<Passage>> passages;
    for (void* address : memory) passages.push_back(sender->device().passage_to(receiver, address, bytes));
    link_ = std::make_unique<DeviceLink>(std::move(passages), in_turn);
  });
  from_ = Napi::Persistent(from);
  to_ = Napi::Persistent(to);
}

LinkObject::~LinkObject() = default;

DeviceLink& LinkObject::link(Napi::Env env) {
  if (!link_) throw Napi::Error::New(env, "the link is closed");
  return *link_;
}

void LinkObject::close(const Napi::CallbackInfo&) { link_.reset(); }

}  // namespace rocmforge
