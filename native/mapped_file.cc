#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rocmforge {
namespace {

// Reads one byte of each page, so that the pages are in memory before the first step needs them.
class TouchWorker : public Napi::AsyncWorker {
 public:
  TouchWorker(Napi::Object owner, const char* first, size_t bytes)
      : Napi::AsyncWorker(owner.Env()),
        deferred_(Napi::Promise::Deferred::New(owner.Env())),
        owner_(Napi::Persistent(owner)),
        first_(first),
        bytes_(bytes) {}
  Napi::Promise promise() { return deferred_.Promise(); }

  void Execute() override {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes_; i += 4096) sum += static_cast<unsigned char>(first_[i]);
    sum_ = sum;
  }
  void OnOK() override { deferred_.Resolve(Env().Undefined()); }

 private:
  Napi::Promise::Deferred deferred_;
  Napi::ObjectReference owner_;
  const char* first_;
  size_t bytes_;
  volatile unsigned sum_ = 0;
};

}  // namespace

Napi::Function MappedFile::define(Napi::Env env) {
  return DefineClass(env, "MappedFile",
                     {InstanceAccessor<&MappedFile::address>("address"), InstanceAccessor<&MappedFile::size>("size"),
                      InstanceMethod<&MappedFile::touch>("touch"), InstanceMethod<&MappedFile::is_changed>("isChanged"),
                      InstanceMethod<&MappedFile::close_file>("close")});
}

MappedFile::MappedFile(const Napi::CallbackInfo& info) : Napi::ObjectWrap<MappedFile>(info) {
  const std::string path = info[0].As<Napi::String>();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) close(fd);
    throw Napi::Error::New(info.Env(), "cannot map " + path + ": " + reason);
  }
  size_ = static_cast<size_t>(status.st_size);
  written_ = status.st_mtim;
  void* address = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    const std::string reason = std::strerror(errno);
    close(fd);
    throw Napi::Error::New(info.Env(), "cannot map " + path + ": " + reason);
  }
  fd_ = fd;
  address_ = static_cast<char*>(address);
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (address_) munmap(address_, size_);
  if (fd_ >= 0) close(fd_);
  address_ = nullptr;
  size_ = 0;
  fd_ = -1;
}

void MappedFile::close_file(const Napi::CallbackInfo&) { unmap(); }

Napi::Value MappedFile::is_changed(const Napi::CallbackInfo& info) {
  struct stat status {};
  const bool is_same = fstat(fd_, &status) == 0 && static_cast<size_t>(status.st_size) == size_ &&
                       status.st_mtim.tv_sec == written_.tv_sec && status.st_mtim.tv_nsec == written_.tv_nsec;
  return Napi::Boolean::New(info.Env(), !is_same);
}

Napi::Value MappedFile::address(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(address_)));
}

Napi::Value MappedFile::size(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(size_));
}

Napi::Value MappedFile::touch(const Napi::CallbackInfo& info) {
  const double offset = info[0].As<Napi::Number>(), bytes = info[1].As<Napi::Number>();
  if (offset < 0 || bytes < 0 || offset + bytes > static_cast<double>(size_)) {
    throw Napi::RangeError::New(info.Env(), "touch: range outside the file");
  }
  auto* worker = new TouchWorker(Value(), address_ + static_cast<size_t>(offset), static_cast<size_t>(bytes));
  Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

}  // namespace rocmforge
