// "Device" memory of the double: one range of shared memory at a fixed address, so that an emulator in another process
// can map the same bytes at the same place. Every allocation is known, and what lies outside of all is refused.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace double_hip {

class Memory {
 public:
  static constexpr uint64_t BASE = 0x600000000000;
  // From one device's memory to the next one's.
  static constexpr uint64_t APART = 0x10000000000;
  static constexpr uint64_t ALIGNMENT = 256;
  // The number of what is the host's, pinned, in place of a device's.
  static constexpr int HOST = 15;

  Memory(uint64_t bytes, int device) : bytes_(bytes), base_(BASE + device * APART) {
    // The file has no name, so that nothing stays of a process that is killed.
    const int file = memfd_create("device", MFD_CLOEXEC);
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    void* mapped = mmap(reinterpret_cast<void*>(base_), bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (mapped != reinterpret_cast<void*>(base_)) std::abort();
  }

  // As an emulator is told of it: the file, where it is mapped, how much of it.
  std::string place() const { return path_ + ":" + std::to_string(base_) + ":" + std::to_string(bytes_); }
  uint64_t total() const { return bytes_; }
  uint64_t free_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return bytes_ - used_;
  }

  // 0 when nothing of that size is free.
  uint64_t allocate(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    // One byte more, so that the end of an allocation is never the start of the next.
    const uint64_t need = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    uint64_t at = base_;
    for (const auto& [start, size] : live_) {
      if (start >= base_ + bytes_) break;
      if (start - at >= need) break;
      at = start + (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    }
    if (at + need > base_ + bytes_) return 0;
    live_[at] = bytes;
    used_ += need;
    // The former content must not look right by chance.
    std::memset(reinterpret_cast<void*>(at), 0xa5, bytes);
    return at;
  }

  bool release(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end()) return false;
    if (address >= base_ + bytes_) return false;
    used_ -= (found->second + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    std::memset(reinterpret_cast<void*>(address), 0xa5, found->second);
    live_.erase(found);
    return true;
  }

  // How another process maps an allocation: the file, where in it, how much. Empty where there is none that begins here.
  std::string exported(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end() || address >= base_ + bytes_) return "";
    return path_ + ":" + std::to_string(address - base_) + ":" + std::to_string(found->second);
  }

  // Maps another process's allocation behind this device's own memory. 0: it is gone.
  uint64_t import(const std::string& place) {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t second = place.rfind(':'), first = place.rfind(':', second - 1);
    const uint64_t offset = std::stoull(place.substr(first + 1)), bytes = std::stoull(place.substr(second + 1));
    const int file = open(place.substr(0, first).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return 0;
    constexpr uint64_t PAGE = 4096;
    const uint64_t before = offset % PAGE, at = base_ + bytes_ + imported_;
    void* mapped = mmap(reinterpret_cast<void*>(at), before + bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, static_cast<off_t>(offset - before));
    close(file);
    if (mapped != reinterpret_cast<void*>(at)) return 0;
    imported_ += (before + bytes + PAGE) / PAGE * PAGE;
    live_[at + before] = bytes;
    return at + before;
  }

  bool close_imported(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end() || address < base_ + bytes_) return false;
    munmap(reinterpret_cast<void*>(address / 4096 * 4096), address % 4096 + found->second);
    live_.erase(found);
    return true;
  }

  // True if the whole range lies in one allocation.
  bool holds(uint64_t address, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto next = live_.upper_bound(address);
    if (next == live_.begin()) return false;
    --next;
    return address + bytes <= next->first + next->second;
  }

 private:
  uint64_t bytes_, base_, used_ = 0, imported_ = 0;
  std::string path_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> live_;
};

}  // namespace double_hip
