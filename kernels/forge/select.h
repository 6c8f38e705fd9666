// Exact selection of the largest elements of a row of logits: the threshold that the k largest, or the fewest elements
// holding a given mass, lie above. Sums are of integers, so the result depends on no order of summation, wave size or
// target. Radix selection (Alabi et al. 2012): eight bits at a time, from the top.
#pragma once

#include "reduce.h"

namespace forge {

// Orders elements by logit, then lower id first. Larger is better; no two elements are equal. Zeros of both signs rank
// alike, as they compare; NaN ranks last.
DEVICE uint64_t rank_of(float logit, int id) {
  const float unsigned_zero = logit + 0.0f;
  uint32_t bits;
  __builtin_memcpy(&bits, &unsigned_zero, 4);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (logit != logit) bits = 0;
  return static_cast<uint64_t>(bits) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}

// The largest rank r such that the weights of all elements ranked r or better sum to at least `target`; 0 when all of
// them together do not. `weight(i)` is a whole number; the sum must fit in a Sum: the narrower, the faster GPUs add.
template <class Sum, class Weight>
DEVICE uint64_t select_threshold(const float* logits, int n, uint64_t target, Weight weight) {
  constexpr int BITS = 8, BINS = 1 << BITS;
  SHARED(Sum, bins, BINS);
  SHARED(uint64_t, found, 2);
  uint64_t prefix = 0, mask = 0, above = 0;  // `above`: the weight of everything ranked over the current prefix
  for (int shift = 64 - BITS; shift >= 0; shift -= BITS) {
    for (int b = thread_id(); b < BINS; b += BLOCK) bins[b] = 0;
    block_sync();
    for (int i = thread_id(); i < n; i += BLOCK) {
      const uint64_t rank = rank_of(logits[i], i);
      if ((rank & mask) != prefix) continue;
      const Sum own = weight(i);
      if (own != 0) shared_add(bins[(rank >> shift) & (BINS - 1)], own);
    }
    block_sync();
    if (thread_id() == 0) {
      int b = BINS - 1;
      uint64_t sum = above;
      while (b > 0 && sum + static_cast<uint64_t>(bins[b]) < target) sum += static_cast<uint64_t>(bins[b--]);
      found[0] = sum;
      found[1] = static_cast<uint64_t>(b);
    }
    block_sync();
    above = found[0];
    prefix |= found[1] << shift;
    mask |= static_cast<uint64_t>(BINS - 1) << shift;
    block_sync();
  }
  return prefix;
}

// This thread's best element of a row; block_argmax of it is the row's.
DEVICE Indexed row_best(const float* logits, int n) {
  Indexed best{-__builtin_inff(), 0};
  for (int i = thread_id(); i < n; i += BLOCK) best = better_of(best, Indexed{logits[i], i});
  return best;
}

// The rank of the k-th best; 0, below every rank, when k is 0 or names them all.
DEVICE uint64_t top_k_threshold(const float* logits, int n, int k) {
  if (k <= 0 || k >= n) return 0;
  return select_threshold<int>(logits, n, k, [](int) { return 1; });
}

// The rank of the last of the fewest that hold a share p of the mass of those ranked `least` or better.
DEVICE uint64_t top_p_threshold(const float* logits, int n, float p, float largest, float inverse_temperature,
                                uint64_t least) {
  // Probability mass in units of 2^-40 of the best token's: whole numbers, so that sums are exact.
  const auto mass = [&](int i) -> uint64_t {
    if (rank_of(logits[i], i) < least) return 0;
    const float probability = exp_of((logits[i] - largest) * inverse_temperature);
    return probability > 0.0f ? static_cast<uint64_t>(probability * 1.099511627776e12f) : 0;  // NaN has none
  };
  SHARED(uint64_t, total, 1);
  if (thread_id() == 0) total[0] = 0;
  block_sync();
  uint64_t part = 0;
  for (int i = thread_id(); i < n; i += BLOCK) part += mass(i);
  shared_add(total[0], part);
  block_sync();
  const uint64_t target = static_cast<uint64_t>(static_cast<double>(total[0]) * static_cast<double>(p));
  return max_of(least, select_threshold<uint64_t>(logits, n, max_of<uint64_t>(target, 1), mass));
}

// Sets the elements ranked below the threshold to -inf.
DEVICE void mask_below(float* logits, int n, uint64_t threshold) {
  for (int i = thread_id(); i < n; i += BLOCK) {
    if (rank_of(logits[i], i) < threshold) logits[i] = -__builtin_inff();
  }
}

}  // namespace forge
