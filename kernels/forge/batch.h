// Looking through a row with several loads under way: one after the other, each would take as long as memory does.
#pragma once

#include "device.h"

namespace forge {

// use(value, index) for this thread's elements of first .. end - 1, in order, `N` of them loaded at a time.
template <int N, class Use>
DEVICE void each_loaded(const float* values, int first, int end, Use use) {
  if (BLOCK == 1) {
    for (int i = first; i < end; i++) use(values[i], i);
    return;
  }
  for (int at = first + thread_id(); at < end; at += N * BLOCK) {
    float own[N];
    UNROLL
    for (int n = 0; n < N; n++) own[n] = values[min_of(at + n * BLOCK, end - 1)];
    UNROLL
    for (int n = 0; n < N; n++) {
      if (at + n * BLOCK < end) use(own[n], at + n * BLOCK);
    }
  }
}

}  // namespace forge
