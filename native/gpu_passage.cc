// Peer access between GPUs of this process.
#include "device_link.h"
#include "gpu_device.h"

namespace rocmforge {
namespace {

// The same bits in both drivers.
constexpr unsigned PORTABLE_MEMORY = 1, UNTIMED_EVENT = 2, NON_BLOCKING_STREAM = 1;

DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

}  // namespace

// Bytes that go to another GPU: into its memory, or where that is null through pinned memory. Each end waits on its own
// stream for the other's latest use of it.
class GpuPassage : public Passage {
 public:
  GpuPassage(GpuDevice& from, GpuDevice& to, void* memory, size_t bytes) : from_(from), to_(to), memory_(memory) {
    to_.bind();
    to_.check(to_.driver_->event_create(&taken_, UNTIMED_EVENT), "cannot create an event");
    from_.bind();
    from_.check(from_.driver_->event_create(&put_, UNTIMED_EVENT), "cannot create an event");
    if (memory_) return;
    from_.check(from_.driver_->host_allocate(&pinned_, bytes, PORTABLE_MEMORY), "cannot allocate pinned memory");
  }
  ~GpuPassage() override {
    // Errors are of no use here; what uses it has ended.
    to_.driver_->bind_thread();
    to_.driver_->stream_synchronize(to_.stream_);
    if (taken_) to_.driver_->event_destroy(taken_);
    from_.driver_->bind_thread();
    from_.driver_->stream_synchronize(from_.stream_);
    if (put_) from_.driver_->event_destroy(put_);
    if (pinned_) from_.driver_->host_free(pinned_);
    GpuDevice::forget_binding();
  }
  void put(const void* source, size_t bytes) override {
    Driver& driver = *from_.driver_;
    from_.check(driver.stream_wait_event(from_.stream_, taken_, 0), "cannot wait for another device");
    if (pinned_) {
      from_.to_host(pinned_, source, bytes);
    } else {
      from_.check(driver.copy_to_peer(address_of(memory_), *to_.driver_, address_of(source), bytes, from_.stream_),
                  "cannot copy to another device");
    }
    from_.check(driver.event_record(put_, from_.stream_), "cannot record an event");
  }
  void take(void* target, size_t bytes) override {
    Driver& driver = *to_.driver_;
    to_.check(driver.stream_wait_event(to_.stream_, put_, 0), "cannot wait for another device");
    if (pinned_) {
      to_.to_device(target, pinned_, bytes);
    } else {
      to_.check(driver.copy_on_device(address_of(target), address_of(memory_), bytes, to_.stream_),
                "cannot copy what another device sent");
    }
    to_.check(driver.event_record(taken_, to_.stream_), "cannot record an event");
  }

 private:
  GpuDevice &from_, &to_;
  void *memory_, *pinned_ = nullptr;
  DriverHandle put_ = nullptr, taken_ = nullptr;
};

bool GpuDevice::can_reach(Device& other) {
  bind();
  const Driver& peer = *static_cast<GpuDevice&>(other).driver_;
  int can = 0;
  check(driver_->can_access_peer(&can, driver_->device, peer.device), "cannot ask whether devices reach each other");
  if (!can) return false;
  const DriverResult enabled = driver_->enable_peer_access(peer);
  if (enabled != DRIVER_PEER_ACCESS_ENABLED) check(enabled, "cannot reach another device");
  return true;
}

void GpuDevice::signal(void* address, int32_t value) {
  bind();
  std::lock_guard<std::mutex> lock(signal_mutex_);
  if (!signal_stream_) check(driver_->stream_create(&signal_stream_, NON_BLOCKING_STREAM), "cannot create a stream");
  if (!signal_) {
    void* memory = nullptr;
    check(driver_->host_allocate(&memory, sizeof value, 0), "cannot allocate pinned memory");
    signal_ = static_cast<int32_t*>(memory);
  }
  *signal_ = value;
  check(driver_->copy_host_to_device(address_of(address), signal_, sizeof value, signal_stream_),
        "cannot copy to the device");
  check(driver_->stream_synchronize(signal_stream_), "the device failed");
}

std::unique_ptr<Passage> GpuDevice::passage_to(Device& other, void* memory, size_t bytes) {
  return std::make_unique<GpuPassage>(*this, static_cast<GpuDevice&>(other), memory, bytes);
}

}  // namespace rocmforge
