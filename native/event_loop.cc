#include "event_loop.h"

#include <uv.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace rocmforge {

namespace {

// Bucket i holds durations from 2^(i / 4) microseconds: 0.001 ms to 260 s, 19 % apart.
constexpr int BUCKETS = 112;
constexpr double PER_OCTAVE = 4;
constexpr double NS = 1e-9;

double lower_bound(int bucket) { return 1e-6 * std::exp2(bucket / PER_OCTAVE); }

int bucket_of(double seconds) {
  if (seconds <= 1e-6) return 0;
  return std::min(BUCKETS - 1, static_cast<int>(PER_OCTAVE * std::log2(seconds * 1e6)));
}

}  // namespace

struct EventLoopMonitor::State {
  uv_prepare_t prepare = {};
  uint64_t at = 0, idle = 0, read_at = 0;
  double longest = 0, squares = 0, cubes = 0;
  std::array<double, BUCKETS> counts = {}, sums = {};

  // Just before the loop waits: what was not spent waiting since the last time kept the loop busy, callbacks of sockets
  // included.
  void turn() {
    uint64_t now = uv_hrtime(), waited = uv_metrics_idle_time(prepare.loop);
    double busy = (static_cast<double>(now - at) - static_cast<double>(waited - idle)) * NS;
    if (busy > 0) add(busy);
    at = now;
    idle = waited;
  }

  void add(double busy) {
    int bucket = bucket_of(busy);
    counts[bucket] += 1;
    sums[bucket] += busy;
    longest = std::max(longest, busy);
    squares += busy * busy;
    cubes += busy * busy * busy;
  }

  void clear(uint64_t now) {
    read_at = now;
    longest = squares = cubes = 0;
    counts.fill(0);
    sums.fill(0);
  }
};

Napi::Function EventLoopMonitor::define(Napi::Env env) {
  return DefineClass(env, "EventLoopMonitor", {InstanceMethod<&EventLoopMonitor::read>("read")});
}

EventLoopMonitor::EventLoopMonitor(const Napi::CallbackInfo& info) : ObjectWrap(info), state_(new State) {
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(info.Env(), &loop) != napi_ok) throw Napi::Error::New(info.Env(), "no event loop");
  // The turn that creates the monitor counts from here on.
  state_->at = uv_hrtime();
  state_->idle = uv_metrics_idle_time(loop);
  state_->clear(state_->at);
  uv_prepare_init(loop, &state_->prepare);
  state_->prepare.data = state_;
  uv_prepare_start(&state_->prepare, [](uv_prepare_t* prepare) { static_cast<State*>(prepare->data)->turn(); });
  // It does not keep the process alive.
  uv_unref(reinterpret_cast<uv_handle_t*>(&state_->prepare));
  info.Env().AddCleanupHook(
      [](State* state) {
        uv_close(reinterpret_cast<uv_handle_t*>(&state->prepare),
                 [](uv_handle_t* handle) { delete static_cast<State*>(handle->data); });
      },
      state_);
}

Napi::Value EventLoopMonitor::read(const Napi::CallbackInfo& info) {
  uint64_t now = uv_hrtime();
  Napi::Float64Array values = Napi::Float64Array::New(info.Env(), 4 + 3 * BUCKETS);
  values[0] = static_cast<double>(now - state_->read_at) * NS;
  values[1] = state_->longest;
  values[2] = state_->squares;
  values[3] = state_->cubes;
  for (int i = 0; i < BUCKETS; i++) {
    values[4 + 3 * i] = lower_bound(i);
    values[5 + 3 * i] = state_->counts[i];
    values[6 + 3 * i] = state_->sums[i];
  }
  state_->clear(now);
  return values;
}

}  // namespace rocmforge
