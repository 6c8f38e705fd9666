#include "device_link.h"

namespace rocmforge {

DeviceLink::DeviceLink(std::vector<std::unique_ptr<Passage>> passages, bool in_turn)
    : passages_(std::move(passages)), has_failed_(passages_.size(), false), in_turn_(in_turn) {}

void DeviceLink::send(const void* source, size_t bytes) {
  uint64_t message = 0;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    message = sent_;
    if (in_turn_) changed_.wait(lock, [&] { return taken_ + passages_.size() > message; });
  }
  try {
    passages_[message % passages_.size()]->put(source, bytes);
  } catch (...) {
    sent(true);
    throw;
  }
  sent(false);
}

void DeviceLink::skip() { sent(true); }

void DeviceLink::sent(bool has_failed) {
  std::lock_guard<std::mutex> lock(mutex_);
  has_failed_[sent_ % passages_.size()] = has_failed;
  sent_++;
  changed_.notify_all();
}

void DeviceLink::receive(uint64_t message, void* target, size_t bytes) {
  bool has_failed = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // Queued there, not ended: the device waits for that by itself.
    changed_.wait(lock, [&] { return sent_ > message; });
    has_failed = has_failed_[message % passages_.size()];
  }
  if (has_failed) {
    taken();
    throw DeviceError("what another device was to send does not come: it has failed");
  }
  try {
    passages_[message % passages_.size()]->take(target, bytes);
  } catch (...) {
    taken();
    throw;
  }
  taken();
}

void DeviceLink::pass_over() { taken(); }

void DeviceLink::taken() {
  if (!in_turn_) return;
  std::lock_guard<std::mutex> lock(mutex_);
  taken_++;
  changed_.notify_all();
}

void Transfer::receive() const {
  if (!link || done) return;
  done = true;
  link->receive(message, address, bytes);
}

void Transfer::send() const {
  if (!link || done) return;
  done = true;
  link->send(address, bytes);
}

void StepWork::give_up() const {
  if (receives.link && !receives.done) receives.link->pass_over();
  if (sends.link && !sends.done) sends.link->skip();
}

}  // namespace rocmforge
