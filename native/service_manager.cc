#include "service_manager.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

namespace rocmforge {

Napi::Value notify_service_manager(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const char* name = getenv("NOTIFY_SOCKET");
  if (name == nullptr || name[0] == '\0') return Napi::Boolean::New(env, false);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  size_t length = strlen(name);
  // A path, or a name in the abstract namespace, which begins with a zero byte in place of the @.
  bool is_address = (name[0] == '/' || name[0] == '@') && length > 1 && length < sizeof(address.sun_path);
  if (!is_address) throw Napi::Error::New(env, std::string("NOTIFY_SOCKET is no address: ") + name);
  memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  std::string text = info[0].As<Napi::String>();
  int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw Napi::Error::New(env, std::string("socket: ") + strerror(errno));
  socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  // A manager that does not read must not hold up who serves.
  ssize_t sent = sendto(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                        reinterpret_cast<const sockaddr*>(&address), bytes);
  int error = errno;
  close(descriptor);
  if (sent < 0) throw Napi::Error::New(env, std::string("NOTIFY_SOCKET ") + name + ": " + strerror(error));
  return Napi::Boolean::New(env, true);
}

}  // namespace rocmforge
