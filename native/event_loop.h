// Duration of each turn of the event loop, measured without a timer that would wake the process.
#pragma once

#include <napi.h>

namespace rocmforge {

// JavaScript: new EventLoopMonitor() measures this thread's loop from then on; read() returns a Float64Array and starts
// anew:
//   [0] seconds since the last read  [1] longest busy turn, s  [2] sum of squares, s^2  [3] sum of cubes, s^3
//   then for each bucket of durations: its lower bound in s, the number of turns and their sum in s
class EventLoopMonitor : public Napi::ObjectWrap<EventLoopMonitor> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EventLoopMonitor(const Napi::CallbackInfo& info);

 private:
  Napi::Value read(const Napi::CallbackInfo& info);

  struct State;
  // Belongs to the loop's handle, which is closed when the environment ends.
  State* state_;
};

}  // namespace rocmforge
