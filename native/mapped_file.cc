#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace rocmforge {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // odd: a word that differs makes a lane differ
constexpr size_t kLanes = 8;                          // enough that multiplications do not wait for one another
constexpr size_t kStripe = kLanes * sizeof(uint64_t);

// A 64-bit checksum of bytes. It is not cryptographic: it finds changes, not forgeries, and must cost less than reading
// does.
uint64_t checksum(const char* first, size_t bytes, uint64_t seed) {
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; i++) lanes[i] = (seed + i + 1) * kMultiplier;
  const auto mix = [&lanes](const char* stripe) {
    uint64_t words[kLanes];
    std::memcpy(words, stripe, kStripe);
    for (size_t i = 0; i < kLanes; i++) {
      const uint64_t product = (lanes[i] ^ words[i]) * kMultiplier;
      lanes[i] = product << 29 | product >> 35;
    }
  };
  const size_t whole = bytes / kStripe * kStripe;
  for (size_t at = 0; at < whole; at += kStripe) mix(first + at);
  if (whole < bytes) {
    char last[kStripe] = {};
    std::memcpy(last, first + whole, bytes - whole);
    mix(last);
  }
  uint64_t sum = bytes;
  for (const uint64_t lane : lanes) {
    sum = (sum ^ lane) * kMultiplier;
    sum ^= sum >> 32;
  }
  return sum;
}

// Reads a range, so that its pages are in memory before the first step needs them, and so that its checksum is known.
class ReadWorker : public Napi::AsyncWorker {
 public:
  ReadWorker(Napi::Object owner, const char* first, size_t bytes, uint64_t offset)
      : Napi::AsyncWorker(owner.Env()),
        deferred_(Napi::Promise::Deferred::New(owner.Env())),
        owner_(Napi::Persistent(owner)),
        first_(first),
        bytes_(bytes),
        offset_(offset) {}
  Napi::Promise promise() { return deferred_.Promise(); }

  // The offset is the seed: ranges that change places are noticed.
  void Execute() override { sum_ = checksum(first_, bytes_, offset_); }
  void OnOK() override { deferred_.Resolve(Napi::BigInt::New(Env(), sum_)); }

 private:
  Napi::Promise::Deferred deferred_;
  Napi::ObjectReference owner_;
  const char* first_;
  size_t bytes_;
  uint64_t offset_;
  uint64_t sum_ = 0;
};

// Gives up the page table entries of a range, which the page cache keeps. They cost a process that ends 20 ms a
// gigabyte.
class DropWorker : public Napi::AsyncWorker {
 public:
  DropWorker(Napi::Object owner, char* first, size_t bytes)
      : Napi::AsyncWorker(owner.Env()),
        deferred_(Napi::Promise::Deferred::New(owner.Env())),
        owner_(Napi::Persistent(owner)),
        first_(first),
        bytes_(bytes) {}
  Napi::Promise promise() { return deferred_.Promise(); }

  void Execute() override { madvise(first_, bytes_, MADV_DONTNEED); }
  void OnOK() override { deferred_.Resolve(Env().Undefined()); }

 private:
  Napi::Promise::Deferred deferred_;
  Napi::ObjectReference owner_;
  char* first_;
  size_t bytes_;
};

}  // namespace

Napi::Function MappedFile::define(Napi::Env env) {
  return DefineClass(
      env, "MappedFile",
      {InstanceAccessor<&MappedFile::address>("address"), InstanceAccessor<&MappedFile::size>("size"),
       InstanceMethod<&MappedFile::read_range>("read"), InstanceMethod<&MappedFile::is_changed>("isChanged"),
       InstanceMethod<&MappedFile::drop_pages>("dropPages"), InstanceMethod<&MappedFile::close_file>("close")});
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

Napi::Value MappedFile::read_range(const Napi::CallbackInfo& info) {
  const double offset = info[0].As<Napi::Number>(), bytes = info[1].As<Napi::Number>();
  if (offset < 0 || bytes < 0 || offset + bytes > static_cast<double>(size_)) {
    throw Napi::RangeError::New(info.Env(), "read: range outside the file");
  }
  const auto at = static_cast<size_t>(offset);
  auto* worker = new ReadWorker(Value(), address_ + at, static_cast<size_t>(bytes), at);
  Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

Napi::Value MappedFile::drop_pages(const Napi::CallbackInfo&) {
  auto* worker = new DropWorker(Value(), address_, size_);
  Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

}  // namespace rocmforge
