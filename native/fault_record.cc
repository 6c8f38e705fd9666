#include "fault_record.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rocmforge {
namespace {

constexpr uint32_t MAGIC = 0x52464652;  // "RFFR"
constexpr uint32_t VERSION = 2;
constexpr size_t FILE_BYTES = 4096;
constexpr int FATAL_SIGNALS[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[NSIG];
// Launch that the calling thread queues.
thread_local uint64_t own_step = 0;

void stamp(int number, siginfo_t* info, void* context) {
  FaultRecord::instance().signal(number, info->si_addr);
  // Then what would have happened without this handler. Node's own one passes on what is not WebAssembly's.
  const struct sigaction& before = previous[number];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    sigaction(number, &before, nullptr);
    raise(number);  // delivered when this handler returns
  }
}

void copy_text(char* target, size_t room, const std::string& text) {
  const size_t length = std::min(room - 1, text.size());
  std::memcpy(target, text.data(), length);
  target[length] = 0;
}

}  // namespace

FaultRecord& FaultRecord::instance() {
  static FaultRecord record;
  return record;
}

FaultRecord::FaultRecord() : layout_(&own_) {}

void FaultRecord::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* address = MAP_FAILED;
  // Its pages must be there before they are stored to: a full disk would be a fatal signal then.
  if (fd >= 0) errno = posix_fallocate(fd, 0, FILE_BYTES);
  if (fd >= 0 && errno == 0) {
    address = mmap(nullptr, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const std::string reason = std::strerror(errno);
  if (fd >= 0) close(fd);
  if (address == MAP_FAILED) throw DeviceError("cannot map the fault record " + path + ": " + reason);
  layout_ = static_cast<Layout*>(address);
  layout_->version = VERSION;
  layout_->magic = MAGIC;
  struct sigaction action {};
  action.sa_sigaction = stamp;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : FATAL_SIGNALS) sigaction(number, &action, &previous[number]);
}

void FaultRecord::step_joined(uint64_t step) { own_step = step; }

void FaultRecord::launch(int device, const std::string& kernel, Dim3 grid, const uint64_t* words, size_t count) {
  std::lock_guard<std::mutex> lock(launching_);
  // The entry is published once it is whole.
  const uint64_t number = layout_->launches.load(std::memory_order_relaxed);
  Launch& entry = layout_->launch[number % LAUNCHES_KEPT];
  entry.step = own_step;
  entry.grid[0] = grid.x;
  entry.grid[1] = grid.y;
  entry.grid[2] = grid.z;
  const size_t kept = std::min(count, static_cast<size_t>(MOST_ARGUMENTS));
  entry.argument_count = static_cast<uint16_t>(kept);
  entry.device = static_cast<uint16_t>(device);
  copy_text(entry.kernel, NAME_BYTES, kernel);
  std::memcpy(entry.arguments, words, kept * sizeof(uint64_t));
  layout_->launches.store(number + 1, std::memory_order_release);
}

void FaultRecord::error(const std::string& message, bool sticky) {
  copy_text(layout_->error, ERROR_BYTES, message);
  layout_->sticky = sticky;
}

void FaultRecord::signal(int number, const void* address) {
  layout_->signal_address = reinterpret_cast<uint64_t>(address);
  layout_->signal = static_cast<uint32_t>(number);
}

}  // namespace rocmforge
