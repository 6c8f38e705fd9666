// sample: chooses the next token of each sampled row
//
// temperature below 1e-6: the largest logit, ties to the lower id. Else, in this order: divide by the temperature, keep
// top_k, keep the most typical that hold more than typical_p of the mass, keep the fewest holding top_p of it, keep
// those at least min_p times as probable as the best; then draw by argmax of logit / temperature + Gumbel noise. The
// noise is a function of (seed, sample index, position, token id): it does not depend on what else is in the step, and
// is the same when the step is run again. A row with NaN or without a finite logit gives OUTPUT_NON_FINITE.
#include "forge/sampling.h"

// One block a sampled row.
KERNEL(sample, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,    // [samples], which row of the step
       const int32_t* __restrict row_position,  // [tokens]
       const int32_t* __restrict row_slot,      // [tokens]
       int32_t* __restrict slots,               // [slots, slot_words]
       int32_t* __restrict output,              // [samples, output_words]; word 0 is the token, see slot.h
       int slot_words, int output_words, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x, row = sample_row[sample];
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* slot = slots + static_cast<size_t>(row_slot[row]) * slot_words;

  const Indexed best = block_argmax(largest_of(l, 0, vocabulary));

  const Sampling sampling = sampling_of(slot);
  int token = best.index;
  if (draws(sampling) && is_finite(best)) {
    const Kept kept = filtered(l, vocabulary, sampling, best.value);
    token = block_argmax(draw(l, 0, vocabulary, sampling, kept, row_position[row] + 1, token)).index;
  }
  if (thread_id() == 0) {
    store_token(output + static_cast<size_t>(sample) * output_words, slot, best, token);
  }
}
