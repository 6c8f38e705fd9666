// Transfers from one device of this process to another in the middle of steps: the residual stream from stage to
// stage of a layer split, and back the tokens that the last stage has sampled.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device.h"

namespace rocmforge {

// Memory through which bytes go from one device to another. Each call is made by its own device's thread, and queued on
// its device: what is put waits there for the take before it, what is taken for the put before it.
class Passage {
 public:
  virtual ~Passage() = default;
  virtual void put(const void* source, size_t bytes) = 0;
  virtual void take(void* target, size_t bytes) = 0;
};

// Messages from one device to another, numbered from 0 on. A message that could not be sent fails its receiver: nobody
// waits for ever.
class DeviceLink {
 public:
  // in_turn: each message is received once, in the order in which they were sent, and waited for before its passage is
  // sent through again. Else any of the latest may be received, any number of times, and sending waits for nobody.
  DeviceLink(std::vector<std::unique_ptr<Passage>> passages, bool in_turn);

  void send(const void* source, size_t bytes);
  // The next message does not come.
  void skip();
  // Throws DeviceError where it does not come.
  void receive(uint64_t message, void* target, size_t bytes);
  // Nobody receives the message.
  void pass_over();

 private:
  void sent(bool has_failed);
  void taken();

  std::vector<std::unique_ptr<Passage>> passages_;
  std::vector<bool> has_failed_;
  const bool in_turn_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t sent_ = 0, taken_ = 0;
};

}  // namespace rocmforge
