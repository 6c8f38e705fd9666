// sample_filter: what top_k, typical_p and top_p leave of each sampled row, for sample_draw
//
// After sample_candidates: among those, or, where they are too many or something is to be typical, in the whole row.
#include "forge/sampling.h"

// One block a sampled row.
KERNEL(sample_filter, const float* __restrict logits,  // [samples, vocabulary]
       const float* __restrict adjusted,               // the same: of rows with penalties or biases
       const int32_t* __restrict sample_row,           // [samples], which row of the step
       const int32_t* __restrict row_slot,             // [tokens]
       const int32_t* __restrict slots,                // [slots, slot_words]
       const int32_t* __restrict biases,               // [slots, 1 + 2 * entries], see logit_bias
       const int32_t* __restrict parts,                // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       int32_t* __restrict filters,                    // [samples, FILTER_WORDS]
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const Sampling sampling = sampling_of(row.slot);
  if (!draws(sampling) || !filters_any(sampling, vocabulary)) return;
  const float largest = best_part(parts, sample, PART_BEST_VALUE).value;
  if (!is_finite({largest, 0})) return;

  int32_t* filter = filter_of(filters, sample);
  bool fits = has_bins(sampling, vocabulary);
  int count = 0;
  SHARED(uint64_t, ranks, ROW_CANDIDATES);
  for (int part = 0; fits && part < FILTER_PARTS; part++) {
    const int of_part = filter[FILTER_COUNTS + part];
    fits = of_part <= PART_CANDIDATES && count + of_part <= ROW_CANDIDATES;
    if (!fits) break;
    for (int i = thread_id(); i < of_part; i += BLOCK) {
      const int id = filter[FILTER_IDS + part * PART_CANDIDATES + i];
      ranks[count + i] = rank_of(row.logits[id], id);
    }
    count += of_part;
  }
  block_sync();
  Kept kept = all_kept(sampling, largest);
  if (fits) {
    const uint64_t target = load_u64(filter + FILTER_TARGET);
    kept.threshold = candidate_threshold(ranks, count, sampling, vocabulary, largest, target);
  } else {
    kept = filtered(row.logits, vocabulary, sampling, largest);
  }
  if (thread_id() == 0) store_kept(filter, kept);
}
