// Rows added to rows: a block takes as many elements as one of an activation.
#pragma once

#include "contract.h"
#include "device.h"

namespace forge {

// target += source, elements [part * SWIGLU_PART, (part + 1) * SWIGLU_PART) of `length`.
DEVICE void add_part(int part, float* target, const float* source, int length) {
  const int first = part * SWIGLU_PART, end = min_of(length, first + SWIGLU_PART);
  if constexpr (WAVE == 1) {
    SIMD
    for (int i = first; i < end; i++) target[i] += source[i];
  } else {
    // All loads before the first store, which else would hold up those behind it.
    constexpr int OWN = (SWIGLU_PART + BLOCK - 1) / BLOCK;
    float sums[OWN];
    UNROLL
    for (int e = 0; e < OWN; e++) {
      const int i = first + e * BLOCK + thread_id();
      sums[e] = i < end ? target[i] + source[i] : 0.0f;
    }
    UNROLL
    for (int e = 0; e < OWN; e++) {
      const int i = first + e * BLOCK + thread_id();
      if (i < end) target[i] = sums[e];
    }
  }
}

}  // namespace forge
