// sample_pick: chooses the next token of each sampled row from what sample_best and sample_draw left of its parts
//
// A row that filters is filtered and drawn here, by one block.
#include "forge/sampling.h"

// One block a sampled row.
KERNEL_RESIDENT(4, sample_pick, const float* __restrict logits,  // [samples, vocabulary]
                const float* __restrict adjusted,                // the same: of rows with penalties or biases
                const int32_t* __restrict sample_row,            // [samples], which row of the step
                const int32_t* __restrict row_slot,              // [tokens]
                const int32_t* __restrict row_position,          // [tokens]
                int32_t* __restrict slots,                       // [slots, slot_words]
                const int32_t* __restrict biases,                // [slots, 1 + 2 * entries], see logit_bias
                const int32_t* __restrict parts,                 // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
                int32_t* __restrict output,  // [samples, output_words]; word 0 is the token, see slot.h
                int slot_words, int output_words, int entries, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const Sampling sampling = sampling_of(row.slot);
  const Indexed best = best_part(parts, sample, PART_BEST_VALUE);
  int token = best.index;
  const bool is_drawn = draws(sampling) && is_finite(best);
  if (is_drawn && !filters(sampling, vocabulary)) {
    token = best_part(parts, sample, PART_DRAWN_VALUE).index;
  } else if (is_drawn) {
    const Kept kept = filter(row.logits, vocabulary, sampling, best.value);
    const int position = row_position[row.row] + 1;
    token = block_argmax(draw(row.logits, 0, vocabulary, sampling, kept, position, best.index)).index;
  }
  if (thread_id() == 0) {
    store_token(output + static_cast<size_t>(sample) * output_words,
                slots + static_cast<size_t>(row_slot[row.row]) * slot_words, best, token);
  }
}
