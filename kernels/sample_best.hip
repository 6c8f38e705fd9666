// sample_best: the largest logit of each part of each sampled row, for sample_draw and sample_pick
//
// The three are sample, shared by many blocks: the same tokens.
#include "forge/sampling.h"

// Grid: x = SAMPLE_PARTS, y = samples.
KERNEL(sample_best, const float* __restrict logits,  // [samples, vocabulary]
       const float* __restrict adjusted,             // the same: of rows with penalties or biases
       const int32_t* __restrict sample_row,         // [samples], which row of the step
       const int32_t* __restrict row_slot,           // [tokens]
       const int32_t* __restrict slots,              // [slots, slot_words]
       const int32_t* __restrict biases,             // [slots, 1 + 2 * entries], see logit_bias
       int32_t* __restrict parts,                    // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int part = BLOCK_INDEX.x, sample = BLOCK_INDEX.y;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const PartRange range = part_range(part, vocabulary);
  const Indexed best = block_argmax(largest_of(row.logits, range.first, range.end));
  if (thread_id() == 0) store_part(parts, sample, part, PART_BEST_VALUE, best);
}
