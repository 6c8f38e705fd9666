// Log probabilities of one row of logits, by one block.
#pragma once

#include "select.h"
#include "slot.h"

namespace forge {

// Where a part has fewer elements than are wanted.
constexpr int NO_ELEMENT = 0x7fffffff;

// The `wanted` likeliest of `count` elements, likeliest first, equal logits by id; all threads of a block together.
// `element(i)` is the i-th, `store(n, best)` gets the n-th best from thread 0.
template <class Element, class Store>
DEVICE void likeliest_of(int count, int wanted, Element element, Store store) {
  uint64_t last = ~static_cast<uint64_t>(0);
  for (int n = 0; n < wanted; n++) {
    Indexed best{-__builtin_inff(), NO_ELEMENT};
    for (int i = thread_id(); i < count; i += BLOCK) {
      const Indexed own = element(i);
      if (rank_of(own.value, own.index) < last) best = better_of(best, own);
    }
    best = block_argmax(best);
    last = rank_of(best.value, best.index);
    if (thread_id() == 0) store(n, best);
  }
}

// The logarithm of the sum of the exponentials of a row; all threads of a block together.
DEVICE float log_sum_of(const float* l, int vocabulary) {
  float largest = LOWEST;
  SIMD_MAX(largest)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) largest = max_of(largest, l[i]);
  largest = block_max(largest);
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) sum += exp_of(l[i] - largest);
  return largest + log_of(block_sum(sum));
}

// `out` is: token, its log probability, top_max ids, top_max log probabilities, all 32-bit words. The token is given;
// its log probability and those of the `wanted` likeliest tokens are written, likeliest first, equal logits by id.
DEVICE void log_softmax_row(const float* l, int32_t* out, int wanted, int top_max, int vocabulary) {
  const float log_sum = log_sum_of(l, vocabulary);
  float* values = reinterpret_cast<float*>(out);
  if (thread_id() == 0) values[1] = l[out[0] & ~OUTPUT_NON_FINITE] - log_sum;
  likeliest_of(
      vocabulary, min_of(wanted, min_of(top_max, vocabulary)),
      [&](int i) {
        return Indexed{l[i], i};
      },
      [&](int n, const Indexed& best) {
        out[2 + n] = best.index;
        values[2 + top_max + n] = best.value - log_sum;
      });
}

}  // namespace forge
