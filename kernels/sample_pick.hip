// sample_pick: chooses the next token of each sampled row from what sample_best and sample_draw left of its parts
#include "forge/sampling.h"

// One block a sampled row.
KERNEL(sample_pick, const int32_t* __restrict sample_row,  // [samples], which row of the step
       const int32_t* __restrict row_slot,                 // [tokens]
       int32_t* __restrict slots,                          // [slots, slot_words]
       const int32_t* __restrict parts,                    // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       int32_t* __restrict output,                         // [samples, output_words]; word 0 is the token, see slot.h
       int slot_words, int output_words) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  int32_t* slot = slots + static_cast<size_t>(row_slot[sample_row[sample]]) * slot_words;
  const Indexed best = best_part(parts, sample, PART_BEST_VALUE);
  int token = best.index;
  if (draws(sampling_of(slot)) && is_finite(best)) token = best_part(parts, sample, PART_DRAWN_VALUE).index;
  if (thread_id() == 0) store_token(output + static_cast<size_t>(sample) * output_words, slot, best, token);
}
