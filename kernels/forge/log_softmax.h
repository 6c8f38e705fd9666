// Log probabilities of one row of logits, by one block.
#pragma once

#include "batch.h"
#include "select.h"
#include "slot.h"

namespace forge {

// Marks an absent element, if a part has fewer than are wanted.
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

// The same with each thread's elements, at most `OWN`, in registers: only who had the best looks for its next one.
template <int OWN, class Element, class Store>
DEVICE void likeliest_held(int count, int wanted, Element element, Store store) {
  Indexed own[OWN];
  UNROLL
  for (int j = 0; j < OWN; j++) {
    const int i = j * BLOCK + thread_id();
    own[j] = i < count ? element(i) : Indexed{-__builtin_inff(), NO_ELEMENT};
  }
  const auto own_best = [&] {
    Indexed best{-__builtin_inff(), NO_ELEMENT};
    UNROLL
    for (int j = 0; j < OWN; j++) best = better_of(best, own[j]);
    return best;
  };
  Indexed mine = own_best();
  for (int n = 0; n < wanted; n++) {
    const Indexed best = block_argmax(mine);
    if (thread_id() == 0) store(n, best);
    if (best.index == NO_ELEMENT || best.index != mine.index) continue;
    UNROLL
    for (int j = 0; j < OWN; j++) {
      if (own[j].index == best.index) own[j] = {-__builtin_inff(), NO_ELEMENT};
    }
    mine = own_best();
  }
}

// Statistics from which log probabilities of a row are computed.
struct RowSums {
  float log_sum;  // the logarithm of the sum of the exponentials
  int rank;       // tokens that are as likely as the given one, or likelier, itself among them: 1 is the likeliest
};

// The sums of a row, of whose tokens one has the logit `own`; all threads of a block together.
DEVICE RowSums row_sums(const float* l, float own, int vocabulary) {
  // A float counts exactly up to 2^24, which no vocabulary has.
  float largest = LOWEST, sum = 0.0f, ahead = 0.0f;
  if (BLOCK == 1) {
    SIMD_MAX(largest)
    for (int i = 0; i < vocabulary; i++) largest = max_of(largest, l[i]);
    SIMD_SUM(sum)
    for (int i = 0; i < vocabulary; i++) sum += exp_of(l[i] - largest);
    SIMD_SUM(ahead)
    for (int i = 0; i < vocabulary; i++) ahead += l[i] >= own ? 1.0f : 0.0f;
    return {largest + log_of(sum), static_cast<int>(ahead)};
  }
  constexpr int AT_ONCE = 32;
  each_loaded<AT_ONCE>(l, 0, vocabulary, [&](float logit, int) { largest = max_of(largest, logit); });
  largest = block_max(largest);
  each_loaded<AT_ONCE>(l, 0, vocabulary, [&](float logit, int) {
    sum += exp_of(logit - largest);
    ahead += logit >= own ? 1.0f : 0.0f;
  });
  sum = block_sum(sum);
  return {largest + log_of(sum), static_cast<int>(block_sum(ahead))};
}

// `out` is: token, its log probability, top_max ids, top_max log probabilities, the token's rank, all 32-bit words. The
// log probability and the rank of `token` are written. Returns the row's `log_sum`; all threads of a block together.
DEVICE float write_own(const float* l, int token, int32_t* out, int top_max, int vocabulary) {
  const float own = l[token];
  const RowSums sums = row_sums(l, own, vocabulary);
  if (thread_id() == 0) {
    reinterpret_cast<float*>(out)[1] = own - sums.log_sum;
    out[2 + 2 * top_max] = sums.rank;
  }
  return sums.log_sum;
}

// The ranks and log probabilities of the `given` tokens that a slot's first biases name, in the places of the likeliest
// ids and theirs, with the bits that each would have as the sampled one; all threads of a block together.
DEVICE void write_given(const float* l, const int32_t* bias, int given, float log_sum, int32_t* out, int top_max,
                        int vocabulary) {
  for (int n = 0; n < given; n++) {
    const float own = l[bias[1 + 2 * n]];
    float ahead = 0.0f;
    if (BLOCK == 1) {
      SIMD_SUM(ahead)
      for (int i = 0; i < vocabulary; i++) ahead += l[i] >= own ? 1.0f : 0.0f;
    } else {
      for (int i = thread_id(); i < vocabulary; i += BLOCK) ahead += l[i] >= own ? 1.0f : 0.0f;
      ahead = block_sum(ahead);
    }
    if (thread_id() != 0) continue;
    out[2 + n] = static_cast<int>(ahead);
    reinterpret_cast<float*>(out)[2 + top_max + n] = own - log_sum;
  }
}

// A row of output as `write_own` has it, with the log probabilities of the `wanted` likeliest tokens, likeliest first,
// equal logits by id. Returns what `write_own` does.
DEVICE float log_softmax_row(const float* l, int token, int32_t* out, int wanted, int top_max, int vocabulary) {
  const float log_sum = write_own(l, token, out, top_max, vocabulary);
  float* values = reinterpret_cast<float*>(out);
  likeliest_of(
      vocabulary, min_of(wanted, min_of(top_max, vocabulary)),
      [&](int i) {
        return Indexed{l[i], i};
      },
      [&](int n, const Indexed& best) {
        out[2 + n] = best.index;
        values[2 + top_max + n] = best.value - log_sum;
      });
  return log_sum;
}

}  // namespace forge
