// sample: chooses the next token of each sampled row
//
// temperature 0: the largest logit, ties to the lower id. Else, in this order: divide by the temperature, keep top_k,
// keep the fewest holding top_p of the mass, keep those at least min_p times as probable as the best; then draw by
// argmax of logit / temperature + Gumbel noise. The noise is a function of (seed, sample index, position, token id):
// it does not depend on what else is in the step, and is the same when the step is run again.
#include "forge/philox.h"
#include "forge/select.h"
#include "forge/slot.h"

// One block a sampled row.
KERNEL(sample, const float* __restrict logits,    // [samples, vocabulary]
       const int32_t* __restrict sample_row,      // [samples], which row of the step
       const int32_t* __restrict row_position,    // [tokens]
       const int32_t* __restrict row_slot,        // [tokens]
       int32_t* __restrict slots,                 // [slots, slot_words]
       int32_t* __restrict output,                // [samples, output_words]; word 0 is the token
       int slot_words, int output_words, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x, row = sample_row[sample];
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* slot = slots + static_cast<size_t>(row_slot[row]) * slot_words;

  Indexed best{-__builtin_inff(), 0};
  for (int i = thread_id(); i < vocabulary; i += BLOCK) best = better_of(best, Indexed{l[i], i});
  best = block_argmax(best);

  const float temperature = as_float(slot[SLOT_TEMPERATURE]);
  int token = best.index;
  if (temperature > 0.0f) {
    const float inverse = 1.0f / temperature, largest = best.value;
    const int top_k = slot[SLOT_TOP_K];
    const float top_p = as_float(slot[SLOT_TOP_P]), min_p = as_float(slot[SLOT_MIN_P]);

    uint64_t threshold = 0;
    if (top_k > 0 && top_k < vocabulary) {
      threshold = select_threshold(l, vocabulary, top_k, [](int) -> uint64_t { return 1; });
    }
    if (top_p < 1.0f) {
      // Probability mass in units of 2^-40 of the best token's: whole numbers, so that sums are exact.
      const auto mass = [&](int i) -> uint64_t {
        if (rank_of(l[i], i) < threshold) return 0;
        const float probability = exp_of((l[i] - largest) * inverse);
        return probability > 0.0f ? static_cast<uint64_t>(probability * 1.099511627776e12f) : 0;  // NaN has none
      };
      SHARED(uint64_t, total, 1);
      if (thread_id() == 0) total[0] = 0;
      block_sync();
      uint64_t part = 0;
      for (int i = thread_id(); i < vocabulary; i += BLOCK) part += mass(i);
      shared_add(total[0], part);
      block_sync();
      const uint64_t target = static_cast<uint64_t>(static_cast<double>(total[0]) * static_cast<double>(top_p));
      threshold = max_of(threshold, select_threshold(l, vocabulary, max_of<uint64_t>(target, 1), mass));
    }

    const uint32_t position = static_cast<uint32_t>(row_position[row]) + 1;
    Indexed drawn{-__builtin_inff(), best.index};
    for (int i = thread_id(); i < vocabulary; i += BLOCK) {
      const float scaled = (l[i] - largest) * inverse;
      if (rank_of(l[i], i) < threshold || (min_p > 0.0f && exp_of(scaled) < min_p)) continue;
      const uint32_t bits = philox(i, position, slot[SLOT_SAMPLE_INDEX], 0, slot[SLOT_SEED_LOW], slot[SLOT_SEED_HIGH]);
      drawn = better_of(drawn, Indexed{scaled + gumbel(bits), i});
    }
    token = block_argmax(drawn).index;
  }
  if (thread_id() == 0) {
    output[static_cast<size_t>(sample) * output_words] = token;
    slot[SLOT_LAST_TOKEN] = token;
  }
}
