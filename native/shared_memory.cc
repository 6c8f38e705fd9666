#include "shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace rocmforge {
namespace {

[[noreturn]] void fail(Napi::Env env, const char* call) {
  throw Napi::Error::New(env, std::string(call) + ": " + strerror(errno));
}

int64_t integer(const Napi::Value& value) { return value.As<Napi::Number>().Int64Value(); }

}  // namespace

Napi::Value create_shared_memory(const Napi::CallbackInfo& info) {
  const std::string name = info[0].As<Napi::String>();
  const int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) fail(info.Env(), "memfd_create");
  return Napi::Number::New(info.Env(), descriptor);
}

Napi::Value map_shared_memory(const Napi::CallbackInfo& info) {
  const int descriptor = static_cast<int>(integer(info[0]));
  const off_t offset = integer(info[1]);
  const off_t bytes = integer(info[2]);
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail(info.Env(), "fstat");
  // Memory that is not there would be a SIGBUS in a kernel, long after this call.
  if (status.st_size < offset + bytes && ftruncate(descriptor, offset + bytes) != 0) fail(info.Env(), "ftruncate");
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
  if (address == MAP_FAILED) fail(info.Env(), "mmap");
  madvise(address, bytes, MADV_HUGEPAGE);  // where the system allows it; slower without, and no error
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(address)));
}

void unmap_shared_memory(const Napi::CallbackInfo& info) {
  void* address = reinterpret_cast<void*>(static_cast<uintptr_t>(integer(info[0])));
  if (munmap(address, integer(info[1])) != 0) fail(info.Env(), "munmap");
}

void seal_shared_memory(const Napi::CallbackInfo& info) {
  const int descriptor = static_cast<int>(integer(info[0]));
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) fail(info.Env(), "fcntl");
}

}  // namespace rocmforge
