// combine_experts: x[t] = sum_i weights[t][i] * y[place_of[t][i]], or that added to it
//
// In the order in which a row has its experts: that of their ids.
#include "forge/contract.h"
#include "forge/device.h"

// Grid: x = ceil(hidden / COMBINE_PART), y = rows; those that only fill a graph are left as they are.
KERNEL(combine_experts, const float* __restrict y,  // [places, hidden]
       const int32_t* __restrict place_of,          // [rows, used]
       const float* __restrict weights,             // [rows, used]
       float* __restrict x,                         // [rows, hidden]
       const int32_t* __restrict tokens,            // [1]
       int hidden, int used, int accumulate) {
  using namespace forge;
  constexpr int PART = COMBINE_PART;
  const int row = BLOCK_INDEX.y;
  if (row >= *tokens) return;
  const int first = BLOCK_INDEX.x * PART, end = min_of(hidden, first + PART);
  const int32_t* places = place_of + row * used;
  float* target = x + static_cast<size_t>(row) * hidden;
  // So few a thread that its sums stay in registers, and what it reads of several experts is on its way at once.
  constexpr int OWN = BLOCK < PART ? PART / BLOCK : 1;
  float sums[OWN];
  SIMD
  for (int e = 0; e < OWN; e++) sums[e] = 0.0f;
  for (int i = 0; i < used; i++) {
    const float weight = weights[row * used + i];
    const float* source = y + static_cast<size_t>(places[i]) * hidden + first;
    SIMD
    for (int e = 0; e < OWN; e++) {
      const int n = e * BLOCK + thread_id();
      if (first + n < end) sums[e] = multiply_add(weight, source[n], sums[e]);
    }
  }
  SIMD
  for (int e = 0; e < OWN; e++) {
    const int n = first + e * BLOCK + thread_id();
    if (n < end) target[n] = accumulate ? target[n] + sums[e] : sums[e];
  }
}
