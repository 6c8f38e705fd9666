// Which of the blocks that share some work ends last, and then sees what all of them have written: what needs all of it
// takes no launch of its own.
#pragma once

#include "device.h"

namespace forge {

// True if this is the last of `count` blocks to ask: all threads of a block together. The counter is 0 before the first
// asks, and again when the last one has: for the next launch, whether that is recorded anew or a graph's.
DEVICE bool is_last_block(int32_t* counter, int count) {
  SHARED(int, arrived, 1);
  // All threads before the barrier: their waves may have stores on their way that a fence of the first one does not
  // wait for.
  show_writes();
  block_sync();
  if (thread_id() == 0) {
    const int before = arrive(counter);
    if (before == count - 1) *counter = 0;
    arrived[0] = before;
  }
  block_sync();
  if (same_in_wave(arrived[0]) != count - 1) return false;
  see_writes();
  return true;
}

}  // namespace forge
