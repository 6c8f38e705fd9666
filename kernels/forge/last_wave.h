// last_block.h for waves that each share some work with waves of other blocks.
#pragma once

#include "device.h"

namespace forge {

// Whether this is the last of `count` waves to ask: all lanes of a wave together. The counter is 0 before the first
// asks, and again when the last one has.
DEVICE bool is_last_wave(int32_t* counter, int count) {
  __syncwarp();
  int before = 0;
  if (lane_id() == 0) {
    before = arrive(counter);
    if (before == count - 1) *counter = 0;
  }
  return __shfl_sync(0xffffffffu, before, 0) == count - 1;
}

}  // namespace forge
