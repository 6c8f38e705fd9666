// sample_candidates: the tokens among which the threshold of each sampled row's top_k or top_p lies
//
// After sample_bins. With top_k all that may be left, which top_p then goes on with; else those of the bin in which the
// mass reaches its share. Their order does not matter to what is selected of them.
#include "forge/sampling.h"

// Grid: x = FILTER_PARTS, y = samples.
KERNEL(sample_candidates, const float* __restrict logits,  // [samples, vocabulary]
       const float* __restrict adjusted,                   // the same: of rows with penalties or biases
       const int32_t* __restrict sample_row,               // [samples], which row of the step
       const int32_t* __restrict row_slot,                 // [tokens]
       const int32_t* __restrict slots,                    // [slots, slot_words]
       const int32_t* __restrict biases,                   // [slots, 1 + 2 * entries], see logit_bias
       const int32_t* __restrict parts,                    // [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS]
       int32_t* __restrict filters,                        // [samples, FILTER_WORDS]
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int part = BLOCK_INDEX.x, sample = BLOCK_INDEX.y;
  const SampledRow row =
      sampled_row({logits, adjusted, sample_row, row_slot, slots, biases, slot_words, entries, vocabulary}, sample);
  const Sampling sampling = sampling_of(row.slot);
  if (!has_bins(sampling, vocabulary)) return;
  const float largest = best_part(parts, sample, PART_BEST_VALUE).value;
  if (!is_finite({largest, 0})) return;

  int32_t* filter = filter_of(filters, sample);
  SHARED(uint64_t, bins, FILTER_BINS);
  SHARED(uint64_t, sums, FILTER_BINS / 16);
  SHARED(int, found, 1);
  for (int b = thread_id(); b < FILTER_BINS; b += BLOCK) {
    uint64_t sum = 0;
    UNROLL
    for (int p = 0; p < FILTER_PARTS; p++) sum += load_u64(filter + FILTER_PART_BINS + 2 * (FILTER_BINS * p + b));
    bins[b] = sum;
  }
  block_sync();
  const bool counts = has_top_k(sampling, vocabulary);
  const uint64_t total = block_total(FILTER_BINS, [&](int b) -> uint64_t { return bins[b]; });
  const uint64_t target = counts ? sampling.top_k : max_of<uint64_t>(share_of(total, sampling.top_p), 1);
  const Reached reached = bin_reaching<FILTER_BINS>(bins, sums, target, 0, false);
  if (thread_id() == 0) {
    found[0] = reached.bin;
    if (part == 0) store_u64(filter + FILTER_TARGET, counts ? target : target - reached.before);
  }
  block_sync();

  const int last = found[0], first = counts ? 0 : last;
  const FilterBins by = filter_bins(sampling, vocabulary, largest);
  const PartRange range = part_range(part, vocabulary, FILTER_PARTS);
  const auto is_candidate = [&](float logit) {
    const int bin = bin_of(by, logit);
    return first <= bin && bin <= last;
  };
  int own = 0;
  each_loaded<LOGITS_AT_ONCE>(row.logits, range.first, range.end,
                              [&](float logit, int) { own += is_candidate(logit); });
  const CountBefore before = count_before(own);
  if (thread_id() == 0) filter[FILTER_COUNTS + part] = before.total;
  if (before.total > PART_CANDIDATES) return;
  int32_t* ids = filter + FILTER_IDS + part * PART_CANDIDATES + before.threads;
  if (own == 0) return;
  each_loaded<LOGITS_AT_ONCE>(row.logits, range.first, range.end, [&](float logit, int i) {
    if (is_candidate(logit)) *ids++ = i;
  });
}
