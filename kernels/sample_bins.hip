// sample_bins: how much each part of each sampled row has in bins by its distance from the largest logit
//
// The first step of filtering a row by many blocks, after sample_best: of rows with top_k, tokens; of those with top_p
// alone, mass. Whole numbers, so the sums depend on no order. Other rows are left alone.
#include "forge/sampling.h"

// Grid: x = FILTER_PARTS, y = samples.
KERNEL(sample_bins, const float* __restrict logits,  // [samples, vocabulary]
       const float* __restrict adjusted,             // the same: of rows with penalties or biases
       const int32_t* __restrict sample_row,         // [samples], which row of the step
       const int32_t* __restrict row_slot,           // [tokens]
       const int32_t* __restrict slots,              // [slots, slot_words]
       const int32_t* __restrict biases,             // [slots, 1 + 2 * entries], see logit_bias
       const int32_t* __restrict parts,              // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       int32_t* __restrict filters,                  // [samples, FILTER_WORDS]
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int part = BLOCK_INDEX.x, sample = BLOCK_INDEX.y;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const Sampling sampling = sampling_of(row.slot);
  if (!has_bins(sampling, vocabulary)) return;
  const float largest = best_part(parts, sample, PART_BEST_VALUE).value;
  if (!is_finite({largest, 0})) return;

  SHARED(uint64_t, bins, FILTER_BINS);
  for (int b = thread_id(); b < FILTER_BINS; b += BLOCK) bins[b] = 0;
  block_sync();
  const bool counts = has_top_k(sampling, vocabulary);
  const FilterBins by = filter_bins(sampling, vocabulary, largest);
  const PartRange range = part_range(part, vocabulary, FILTER_PARTS);
  each_loaded<LOGITS_AT_ONCE>(row.logits, range.first, range.end, [&](float logit, int) {
    const uint64_t own = counts ? 1 : mass_of((logit - largest) * sampling.inverse);
    if (own != 0) shared_add(bins[bin_of(by, logit)], own);
  });
  block_sync();
  int32_t* target = filter_of(filters, sample) + FILTER_PART_BINS + 2 * FILTER_BINS * part;
  for (int b = thread_id(); b < FILTER_BINS; b += BLOCK) store_u64(target + 2 * b, bins[b]);
}
