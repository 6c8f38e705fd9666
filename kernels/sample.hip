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
KERNEL(sample, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,    // [samples], which row of the step
       const int32_t* __restrict row_position,  // [tokens]
       const int32_t* __restrict row_slot,      // [tokens]
       int32_t* __restrict slots,               // [slots, slot_words]
       int32_t* __restrict output,              // [samples, output_words]; word 0 is the token
       int slot_words, int output_words, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x, row = sample_row[sample];
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* slot = slots + static_cast<size_t>(row_slot[row]) * slot_words;

  const Indexed best = block_argmax(row_best(l, vocabulary));

  const float temperature = as_float(slot[SLOT_TEMPERATURE]);
  int token = best.index;
  if (temperature > 0.0f) {
    const float inverse = 1.0f / temperature, largest = best.value;
    const int top_k = slot[SLOT_TOP_K];
    const float top_p = as_float(slot[SLOT_TOP_P]), min_p = as_float(slot[SLOT_MIN_P]);

    uint64_t threshold = top_k_threshold(l, vocabulary, top_k);
    if (top_p < 1.0f) threshold = top_p_threshold(l, vocabulary, top_p, largest, inverse, threshold);

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
