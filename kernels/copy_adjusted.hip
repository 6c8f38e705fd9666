// copy_adjusted: adjusted[s] = logits[s], for the rows whose slot has penalties, biases or a constraint
//
// Those then change the copy; log probabilities are of the raw logits.
#include "forge/sampling.h"

// Grid: x = SAMPLE_PARTS, y = samples.
KERNEL(copy_adjusted, const float* __restrict logits,  // [samples, vocabulary]
       float* __restrict adjusted,                     // the same
       const int32_t* __restrict sample_row,           // [samples], which row of the step
       const int32_t* __restrict row_slot,             // [tokens]
       const int32_t* __restrict slots,                // [slots, slot_words]
       const int32_t* __restrict biases,               // [slots, 1 + 2 * entries], see logit_bias
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.y, slot = row_slot[sample_row[sample]];
  if (!adjusts(slots + static_cast<size_t>(slot) * slot_words,
               biases + static_cast<size_t>(slot) * (1 + 2 * entries))) {
    return;
  }
  const size_t row = static_cast<size_t>(sample) * vocabulary;
  const PartRange range = part_range(BLOCK_INDEX.x, vocabulary);
  for (int i = range.first + thread_id(); i < range.end; i += BLOCK) adjusted[row + i] = logits[row + i];
}
