// Log probabilities of one row of logits, by one block.
#pragma once

#include "select.h"
#include "slot.h"

namespace forge {

// `out` is: token, its log probability, top_max ids, top_max log probabilities, all 32-bit words. The token is given;
// its log probability and those of the `wanted` likeliest tokens are written, likeliest first, equal logits by id.
DEVICE void log_softmax_row(const float* l, int32_t* out, int wanted, int top_max, int vocabulary) {
  float largest = LOWEST;
  SIMD_MAX(largest)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) largest = max_of(largest, l[i]);
  largest = block_max(largest);
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) sum += exp_of(l[i] - largest);
  const float log_sum = largest + log_of(block_sum(sum));

  float* values = reinterpret_cast<float*>(out);
  if (thread_id() == 0) values[1] = l[out[0] & ~OUTPUT_NON_FINITE] - log_sum;
  uint64_t last = ~static_cast<uint64_t>(0);
  for (int n = 0; n < min_of(wanted, min_of(top_max, vocabulary)); n++) {
    Indexed best{-__builtin_inff(), 0x7fffffff};
    for (int i = thread_id(); i < vocabulary; i += BLOCK) {
      if (rank_of(l[i], i) < last) best = better_of(best, Indexed{l[i], i});
    }
    best = block_argmax(best);
    last = rank_of(best.value, best.index);
    if (thread_id() == 0) {
      out[2 + n] = best.index;
      values[2 + top_max + n] = best.value - log_sum;
    }
  }
}

}  // namespace forge
