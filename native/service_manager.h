// Notifications of a service to the service manager that started it.
#pragma once

#include <napi.h>

namespace rocmforge {

// (assignments such as "READY=1", a line each) → whether there was somebody to tell. Sends one datagram to the socket
// that the environment's NOTIFY_SOCKET names, as sd_notify(3) does; from this process itself, so that NotifyAccess=main
// takes it.
Napi::Value notify_service_manager(const Napi::CallbackInfo& info);

}  // namespace rocmforge
