// sample_draw: the best of each part of each sampled row with its noise, after sample_best and sample_filter
//
// Rows that are greedy or that no token can be drawn for are left to sample_pick.
#include "forge/sampling.h"

// Grid: x = SAMPLE_PARTS, y = samples.
KERNEL(sample_draw, const float* __restrict logits,  // [samples, vocabulary]
       const float* __restrict adjusted,             // the same: of rows with penalties or biases
       const int32_t* __restrict sample_row,         // [samples], which row of the step
       const int32_t* __restrict row_slot,           // [tokens]
       const int32_t* __restrict row_position,       // [tokens]
       const int32_t* __restrict slots,              // [slots, slot_words]
       const int32_t* __restrict biases,             // [slots, 1 + 2 * entries], see logit_bias
       int32_t* __restrict parts,                    // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       const int32_t* __restrict filters,            // [samples, FILTER_WORDS]
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int part = BLOCK_INDEX.x, sample = BLOCK_INDEX.y;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const Sampling sampling = sampling_of(row.slot);
  if (!draws(sampling)) return;
  const Indexed best = best_part(parts, sample, PART_BEST_VALUE);
  if (!is_finite(best)) return;
  const PartRange range = part_range(part, vocabulary);
  const int position = row_position[row.row] + 1;
  const Kept kept =
      filters_any(sampling, vocabulary) ? load_kept(filter_of(filters, sample)) : all_kept(sampling, best.value);
  const Indexed drawn = block_argmax(draw(row.logits, range.first, range.end, sampling, kept, position, best.index));
  if (thread_id() == 0) store_part(parts, sample, part, PART_DRAWN_VALUE, drawn);
}
