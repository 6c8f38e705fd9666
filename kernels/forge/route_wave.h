// The choice of route.h by one wave, for blocks that each find out by themselves who a row is sent to.
#pragma once

#include "hopper/hopper.h"
#include "route.h"

namespace forge {

// Experts of a row, computed by every block that needs them.
struct Sent {
  int32_t ids[MOST_USED_EXPERTS];
  float shares[MOST_USED_EXPERTS];
};

// route.h's choice with its bits by one wave, which waits for no other: a lane has every 32nd expert, PER_LANE of them.
template <int PER_LANE>
DEVICE void route_by_wave(const Routing& by, const float* scores, Sent& sent) {
  SHARED(float, chosen, MOST_USED_EXPERTS);
  const int lane = lane_id();
  float values[PER_LANE], largest = LOWEST;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const int e = k * WAVE + lane;
    values[k] = e < by.experts ? scores[e] : LOWEST;
    largest = max_of(largest, values[k]);
  }
  largest = wave_max(largest);
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const float score = values[k];
    if (by.scoring == ROUTE_SIGMOID) values[k] = 1.0f / (1.0f + exp_of(-score));
    if (by.scoring == ROUTE_SOFTMAX) values[k] = k * WAVE + lane < by.experts ? exp_of(score - largest) : 0.0f;
  }
  if (by.scoring == ROUTE_SOFTMAX) {
    // As a block's threads add them: each those a block apart, then a wave's, then those of the waves in order.
    float sum = 0.0f;
    UNROLL
    for (int wave = 0; wave < WAVES; wave++) {
      float own = 0.0f;
      UNROLL
      for (int k = wave; k < PER_LANE; k += WAVES) own += values[k];
      if (wave < PER_LANE) sum += wave_sum(own);
    }
    UNROLL
    for (int k = 0; k < PER_LANE; k++) values[k] /= sum;
  }
  uint32_t keys[PER_LANE], taken = 0;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const int e = k * WAVE + lane;
    keys[k] = e < by.experts ? static_cast<uint32_t>(ordered(values[k] + by.bias[e])) ^ 0x80000000u : 0;
  }
  ROLLED
  for (int i = 0; i < by.used; i++) {
    uint32_t best = 0;
    UNROLL
    for (int k = 0; k < PER_LANE; k++) best = max_of(best, keys[k]);
    best = wave_max(best);
    uint32_t id = MOST_EXPERTS;
    UNROLL
    for (int k = PER_LANE - 1; k >= 0; k--) {
      if (keys[k] == best && (taken >> k & 1) == 0) id = k * WAVE + lane;
    }
    id = wave_min(id);
    UNROLL
    for (int k = 0; k < PER_LANE; k++) {
      if (id != k * WAVE + lane) continue;
      taken |= 1u << k;
      keys[k] = 0;
    }
  }
  int before = 0;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const bool is_taken = (taken >> k & 1) != 0;
    const uint32_t lanes = lanes_where(is_taken);
    const int place = before + count_bits(lanes & ((1u << lane) - 1));
    before += count_bits(lanes);
    if (!is_taken) continue;
    sent.ids[place] = k * WAVE + lane;
    chosen[place] = values[k];
  }
  __syncwarp();
  share_out(by, chosen + 0, sent.shares + 0, lane, WAVE);
}
// All threads of a block together.
DEVICE void send(const Routing& by, const float* scores, Sent& sent) {
  if (wave_id() == 0) {
    if (by.experts <= 4 * WAVE) {
      route_by_wave<4>(by, scores, sent);
    } else {
      route_by_wave<ROUTER_MOST_EXPERTS / WAVE>(by, scores, sent);
    }
  }
  block_sync();
}

}  // namespace forge
