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

// Bin at which the weights, added from the last bin down or from the first one up, first reach `target`.
struct Reached {
  int bin;
  uint64_t before;  // the weight of the bins before it
};
// The first of `COUNT` weights with which `before` reaches `target`, or the last of them; adds those before it to
// `before`. All are loaded first: each would have to wait for the one before it.
template <int COUNT, class Weight>
DEVICE int first_reaching(uint64_t& before, uint64_t target, Weight weight) {
  uint64_t weights[COUNT];
  UNROLL
  for (int i = 0; i < COUNT; i++) weights[i] = weight(i);
  int first = 0;
  bool is_short = true;
  UNROLL
  for (int i = 0; i < COUNT - 1; i++) {
    is_short = is_short && before + weights[i] < target;
    if (is_short) {
      before += weights[i];
      first = i + 1;
    }
  }
  return first;
}

// Thread 0 looks at sums of 16 bins first: one after the other, all of them would take longer than filling them.
// `sums` has room for COUNT / 16. All threads of a block together; what is returned holds for thread 0.
template <int COUNT, class Bins, class Sums>
DEVICE Reached bin_reaching(const Bins& bins, Sums& sums, uint64_t target, uint64_t before, bool from_last) {
  constexpr int GROUP = 16, GROUPS = COUNT / GROUP;
  const auto place = [&](int i, int count) { return from_last ? count - 1 - i : i; };
  for (int g = thread_id(); g < GROUPS; g += BLOCK) {
    uint64_t sum = 0;
    for (int i = 0; i < GROUP; i++) sum += static_cast<uint64_t>(bins[g * GROUP + i]);
    sums[g] = sum;
  }
  block_sync();
  if (thread_id() != 0) return {0, 0};
  const int g = first_reaching<GROUPS>(before, target, [&](int i) -> uint64_t { return sums[place(i, GROUPS)]; });
  const int i = first_reaching<GROUP>(before, target,
                                      [&](int n) { return static_cast<uint64_t>(bins[place(g * GROUP + n, COUNT)]); });
  return {place(g * GROUP + i, COUNT), before};
}

// The logit of a rank; of the zeros the positive one.
DEVICE float logit_of(uint64_t rank) {
  uint32_t bits = static_cast<uint32_t>(rank >> 32);
  bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
  float logit;
  __builtin_memcpy(&logit, &bits, 4);
  return logit;
}

// Ranks whose bits from `shift + RADIX_BITS` on are known: those of `prefix`.
struct RankRange {
  uint64_t prefix;
  int shift;
};
constexpr int RADIX_BITS = 8, RADIX_BINS = 1 << RADIX_BITS;
// All bits from this one on.
DEVICE uint64_t bits_from(int bit) { return bit >= 64 ? 0 : ~static_cast<uint64_t>(0) << bit; }

// The largest rank r such that the weights of all elements ranked r or better sum to at least `target`; 0 when all of
// them together do not, which may not be where a range is given. `rank(i)` differs for any two; `weight(i)` is a whole
// number, and the sum must fit in a Sum: the narrower, the faster GPUs add.
template <class Sum, class Rank, class Weight>
DEVICE uint64_t select_threshold(int n, uint64_t target, Rank rank_at, Weight weight,
                                 RankRange range = {0, 64 - RADIX_BITS}) {
  constexpr int ID_BITS = 32;
  SHARED(Sum, bins, RADIX_BINS);
  SHARED(uint64_t, sums, RADIX_BINS / 16);
  SHARED(uint64_t, found, 2);
  uint64_t prefix = range.prefix, mask = bits_from(range.shift + RADIX_BITS);
  uint64_t above = 0;  // the weight of everything ranked over the current prefix
  bool knows_logit = false;
  for (int shift = range.shift;; shift = max_of(shift - RADIX_BITS, 0)) {
    for (int b = thread_id(); b < RADIX_BINS; b += BLOCK) bins[b] = 0;
    block_sync();
    for (int i = thread_id(); i < n; i += BLOCK) {
      const uint64_t rank = rank_at(i);
      if ((rank & mask) != prefix) continue;
      const Sum own = weight(i);
      if (own != 0) shared_add(bins[(rank >> shift) & (RADIX_BINS - 1)], own);
    }
    block_sync();
    const Reached reached = bin_reaching<RADIX_BINS>(bins, sums, target, above, true);
    if (thread_id() == 0) {
      found[0] = reached.before;
      found[1] = static_cast<uint64_t>(reached.bin);
    }
    block_sync();
    above = found[0];
    prefix |= found[1] << shift;
    mask = bits_from(shift);
    block_sync();
    if (shift == 0) return prefix;
    // The remaining elements have one logit. Mostly that is one element, and the bits of its id need not be searched
    // for.
    if (knows_logit || shift > ID_BITS) continue;
    knows_logit = true;
    for (int i = thread_id(); i < 2; i += BLOCK) found[i] = 0;
    block_sync();
    for (int i = thread_id(); i < n; i += BLOCK) {
      const uint64_t rank = rank_at(i);
      if ((rank & mask) != prefix || weight(i) == 0) continue;
      shared_add(found[0], static_cast<uint64_t>(1));
      shared_add(found[1], rank);
    }
    block_sync();
    const uint64_t count = found[0], sum = found[1];
    block_sync();
    if (count == 1) return sum;
  }
}

// Common leading bits of the ranks of some elements, one at least: of elements that are alike, as a few of the largest
// of a row are, the first bits would put all in one bin, where additions wait for each other.
template <class Rank>
DEVICE RankRange common_range(int n, Rank rank_at) {
  constexpr int GROUP = 16, GROUPS = (BLOCK + GROUP - 1) / GROUP;
  SHARED(uint64_t, lows, (BLOCK + GROUPS));
  SHARED(uint64_t, highs, (BLOCK + GROUPS));
  uint64_t low = ~static_cast<uint64_t>(0), high = 0;
  for (int i = thread_id(); i < n; i += BLOCK) {
    low = min_of<uint64_t>(low, rank_at(i));
    high = max_of<uint64_t>(high, rank_at(i));
  }
  lows[thread_id()] = low;
  highs[thread_id()] = high;
  block_sync();
  for (int g = thread_id(); g < GROUPS; g += BLOCK) {
    low = ~static_cast<uint64_t>(0);
    high = 0;
    for (int i = g * GROUP; i < min_of((g + 1) * GROUP, BLOCK); i++) {
      low = min_of<uint64_t>(low, lows[i]);
      high = max_of<uint64_t>(high, highs[i]);
    }
    lows[BLOCK + g] = low;
    highs[BLOCK + g] = high;
  }
  block_sync();
  low = lows[BLOCK];
  high = highs[BLOCK];
  for (int g = 1; g < GROUPS; g++) {
    low = min_of<uint64_t>(low, lows[BLOCK + g]);
    high = max_of<uint64_t>(high, highs[BLOCK + g]);
  }
  block_sync();
  int different = RADIX_BITS;
  while (different < 64 && (low ^ high) >> different != 0) different++;
  const int shift = different - RADIX_BITS;
  return {low & bits_from(different), shift};
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
  return select_threshold<int>(
      n, k, [&](int i) { return rank_of(logits[i], i); }, [](int) { return 1; });
}

// An element's probability mass in units of 2^-40 of the likeliest's, times `factor`: whole numbers, so that sums are
// exact. scaled: its logit over the temperature, less the likeliest's. NaN has none.
DEVICE uint64_t mass_of(float scaled, float factor = 1.0f) {
  const float probability = exp_of(scaled);
  return probability > 0.0f ? static_cast<uint64_t>(probability * factor * 1.099511627776e12f) : 0;
}

// The sum of a whole number an element: all threads of a block together.
template <class Weight>
DEVICE uint64_t block_total(int n, Weight weight) {
  SHARED(uint64_t, total, 1);
  if (thread_id() == 0) total[0] = 0;
  block_sync();
  uint64_t part = 0;
  for (int i = thread_id(); i < n; i += BLOCK) part += weight(i);
  shared_add(total[0], part);
  block_sync();
  const uint64_t sum = total[0];
  block_sync();
  return sum;
}

// A share p of a total, rounded down.
DEVICE uint64_t share_of(uint64_t total, float p) {
  return static_cast<uint64_t>(static_cast<double>(total) * static_cast<double>(p));
}

// The rank of the last of the fewest that hold a share p of the mass of those that `kept(i)` says are left.
template <class Kept>
DEVICE uint64_t top_p_threshold(const float* logits, int n, float p, float largest, float inverse_temperature,
                                Kept kept) {
  const auto mass = [&](int i) -> uint64_t {
    return kept(i) ? mass_of((logits[i] - largest) * inverse_temperature) : 0;
  };
  const uint64_t target = max_of<uint64_t>(share_of(block_total(n, mass), p), 1);
  return select_threshold<uint64_t>(
      n, target, [&](int i) { return rank_of(logits[i], i); }, mass);
}

// Elements that locally typical sampling keeps: of those whose surprise, -log of their probability, is nearest to what
// a draw's is on average, the fewest that hold more than a share p of the mass (Meister et al. 2023).
struct Typical {
  float largest, inverse;
  float expected;  // a draw's surprise; of it and of each element's the likeliest's is taken off, as it cancels
  uint64_t least;  // by typical_rank; 0: all are kept
};
DEVICE uint64_t typical_rank(const Typical& typical, float logit, int id) {
  const float off = (typical.largest - logit) * typical.inverse - typical.expected;
  return rank_of(off < 0.0f ? off : -off, id);
}
DEVICE bool is_typical(const Typical& typical, float logit, int id) {
  return typical.least == 0 || typical_rank(typical, logit, id) >= typical.least;
}
// Selects among elements ranked `threshold` or better: all threads of a block together.
DEVICE Typical typical_of(const float* logits, int n, float p, float largest, float inverse_temperature,
                          uint64_t threshold) {
  const auto mass = [&](int i) -> uint64_t {
    return rank_of(logits[i], i) >= threshold ? mass_of((logits[i] - largest) * inverse_temperature) : 0;
  };
  const auto surprise = [&](int i) -> uint64_t {
    const float scaled = (logits[i] - largest) * inverse_temperature;
    return rank_of(logits[i], i) >= threshold ? mass_of(scaled, -scaled) : 0;
  };
  const uint64_t total = block_total(n, mass), surprises = block_total(n, surprise);
  const double expected = static_cast<double>(surprises) / static_cast<double>(total);
  Typical typical{largest, inverse_temperature, static_cast<float>(expected), 0};
  typical.least = select_threshold<uint64_t>(
      n, share_of(total, p) + 1, [&](int i) { return typical_rank(typical, logits[i], i); }, mass);
  return typical;
}

// Sets the elements ranked below the threshold to -inf.
DEVICE void mask_below(float* logits, int n, uint64_t threshold) {
  for (int i = thread_id(); i < n; i += BLOCK) {
    if (rank_of(logits[i], i) < threshold) logits[i] = -__builtin_inff();
  }
}

}  // namespace forge
