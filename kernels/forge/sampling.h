// Code shared by the sampling kernels: a slot's parameters choose the next token from a row of logits.
#pragma once

#include "batch.h"
#include "philox.h"
#include "select.h"
#include "slot.h"

namespace forge {

struct Sampling {
  float temperature, inverse, typical_p, top_p, min_p;
  int top_k, sample_index, seed_low, seed_high;
};
DEVICE Sampling sampling_of(const int32_t* slot) {
  const auto f32 = [&](SlotWord word) { return as_float(slot[word]); };
  const float temperature = f32(SLOT_TEMPERATURE);
  return {temperature,      1.0f / temperature,      f32(SLOT_TYPICAL_P), f32(SLOT_TOP_P),    f32(SLOT_MIN_P),
          slot[SLOT_TOP_K], slot[SLOT_SAMPLE_INDEX], slot[SLOT_SEED],     slot[SLOT_SEED + 1]};
}
// Below this a temperature is an argmax: its inverse would be infinite for some, and 0 * inf is no logit.
constexpr float LEAST_TEMPERATURE = 1e-6f;
DEVICE bool draws(const Sampling& s) { return s.temperature >= LEAST_TEMPERATURE; }
DEVICE bool has_top_k(const Sampling& s, int vocabulary) { return s.top_k > 0 && s.top_k < vocabulary; }
// True if a top_k, typical_p or top_p may leave tokens out of the draw. What min_p leaves out is known of each token by
// itself.
DEVICE bool filters_any(const Sampling& s, int vocabulary) {
  return has_top_k(s, vocabulary) || s.typical_p < 1.0f || s.top_p < 1.0f;
}

// Elements of a part that a thread loads before it looks at the first.
constexpr int LOGITS_AT_ONCE = 8;

// This thread's largest of the elements first .. end - 1. NaN counts as +inf, before any index: so the largest of a row
// is finite exactly when a token can be drawn for it, and no second look at the row is needed.
DEVICE Indexed largest_of(const float* logits, int first, int end) {
  Indexed best{-__builtin_inff(), 0};
  each_loaded<LOGITS_AT_ONCE>(logits, first, end, [&](float logit, int i) {
    // Seldom true: what is larger than all before it, or NaN, which nothing is larger than.
    if (logit <= best.value || best.index < 0) return;
    best = logit != logit ? Indexed{__builtin_inff(), -1} : Indexed{logit, i};
  });
  return best;
}
DEVICE bool is_finite(const Indexed& largest) {
  return largest.value > -__builtin_inff() && largest.value < __builtin_inff();
}
// Hands out a row's token: in its output, and in its slot for the next position.
DEVICE void store_token(int32_t* output, int32_t* slot, const Indexed& largest, int token) {
  const bool is_drawn = is_finite(largest);
  output[0] = is_drawn ? token : OUTPUT_NON_FINITE;
  slot[SLOT_LAST_TOKEN] = is_drawn ? token : 0;
}

// Elements of a row that pass the filters: those of at least this rank that are typical. `largest` is the largest of
// their logits.
struct Kept {
  uint64_t threshold;
  Typical typical;
  float largest;
};
DEVICE bool is_kept(const Kept& kept, float logit, int id) {
  return rank_of(logit, id) >= kept.threshold && is_typical(kept.typical, logit, id);
}
DEVICE Kept all_kept(const Sampling& s, float largest) { return {0, {largest, s.inverse, 0.0f, 0}, largest}; }

// Elements that pass top_k, then typical_p, then top_p: all threads of a block together.
DEVICE Kept filtered(const float* logits, int vocabulary, const Sampling& s, float largest) {
  Kept kept = all_kept(s, largest);
  kept.threshold = top_k_threshold(logits, vocabulary, s.top_k);
  if (s.typical_p < 1.0f) {
    kept.typical = typical_of(logits, vocabulary, s.typical_p, largest, s.inverse, kept.threshold);
    Indexed best{-__builtin_inff(), 0};
    for (int i = thread_id(); i < vocabulary; i += BLOCK) {
      if (is_kept(kept, logits[i], i)) best = better_of(best, Indexed{logits[i], i});
    }
    kept.largest = block_argmax(best).value;
  }
  if (s.top_p < 1.0f) {
    const uint64_t least = top_p_threshold(logits, vocabulary, s.top_p, kept.largest, s.inverse,
                                           [&](int i) { return is_kept(kept, logits[i], i); });
    kept.threshold = max_of(kept.threshold, least);
  }
  return kept;
}

// The noise of a token at a position.
DEVICE uint32_t noise_bits(const Sampling& s, int position, int id) {
  return philox(static_cast<uint32_t>(id), static_cast<uint32_t>(position), static_cast<uint32_t>(s.sample_index), 0,
                static_cast<uint32_t>(s.seed_low), static_cast<uint32_t>(s.seed_high));
}
// Kept, and at least min_p times as probable as the likeliest; scaled: its logit less the likeliest's, by temperature.
DEVICE bool is_drawn_from(const Sampling& s, const Kept& kept, float logit, float scaled, int id) {
  return is_kept(kept, logit, id) && !(s.min_p > 0.0f && exp_of(scaled) < s.min_p);
}

// This thread's best of the elements first .. end - 1 with their noise, of those to draw from; `otherwise` when there
// is none. position: of the token to be drawn.
#if WAVE == 1
// Logarithms only where the element may become the best: what the noise is at most is known before.
DEVICE Indexed draw(const float* logits, int first, int end, const Sampling& s, const Kept& kept, int position,
                    int otherwise) {
  constexpr int AT_ONCE = 16;
  Indexed drawn{-__builtin_inff(), otherwise};
  for (int at = first; at < end; at += AT_ONCE) {
    const int count = min_of(AT_ONCE, end - at);
    float scaled[AT_ONCE];
    uint32_t bits[AT_ONCE];
    float most = -__builtin_inff();
    for (int j = 0; j < AT_ONCE; j++) {
      scaled[j] = j < count ? (logits[at + j] - kept.largest) * s.inverse : -__builtin_inff();
      most = max_of(most, scaled[j]);
    }
    if (most + MOST_GUMBEL < drawn.value || most == -__builtin_inff()) continue;
    for (int j = 0; j < AT_ONCE; j++) bits[j] = noise_bits(s, position, at + j);
    float sums[AT_ONCE];
    for (int j = 0; j < AT_ONCE; j++) sums[j] = scaled[j] + gumbel_at_most(bits[j]);
    most = -__builtin_inff();
    for (int j = 0; j < AT_ONCE; j++) most = max_of(most, sums[j]);
    if (most < drawn.value) continue;
    for (int j = 0; j < count; j++) {
      if (sums[j] < drawn.value) continue;
      if (!is_drawn_from(s, kept, logits[at + j], scaled[j], at + j)) continue;
      drawn = better_of(drawn, Indexed{scaled[j] + gumbel(bits[j]), at + j});
    }
  }
  return drawn;
}
#else
DEVICE Indexed draw(const float* logits, int first, int end, const Sampling& s, const Kept& kept, int position,
                    int otherwise) {
  Indexed drawn{-__builtin_inff(), otherwise};
  each_loaded<LOGITS_AT_ONCE>(logits, first, end, [&](float logit, int i) {
    const float scaled = (logit - kept.largest) * s.inverse;
    if (!is_drawn_from(s, kept, logit, scaled, i)) return;
    drawn = better_of(drawn, Indexed{scaled + gumbel(noise_bits(s, position, i)), i});
  });
  return drawn;
}
#endif

// True if a slot's penalties, its biases or a mask may change a logit.
DEVICE bool adjusts(const int32_t* slot, const int32_t* bias) {
  return as_float(slot[SLOT_REPETITION_PENALTY]) != 1.0f || as_float(slot[SLOT_FREQUENCY_PENALTY]) != 0.0f ||
         as_float(slot[SLOT_PRESENCE_PENALTY]) != 0.0f || slot[SLOT_CONSTRAINED] != 0 || bias[0] > 0;
}

// A row of the step that is sampled, as the kernels that share its work among blocks see it.
struct SampledRow {
  const int32_t* slot;
  const float* logits;  // those that tokens are drawn from
  int row;
};
struct SampledRows {
  const float *logits, *adjusted;  // [samples, vocabulary]
  const int32_t *sample_row, *row_slot, *slots, *biases;
  int slot_words, entries, vocabulary;
};
DEVICE SampledRow sampled_row(const SampledRows& rows, int sample) {
  const int row = rows.sample_row[sample], slot_index = rows.row_slot[row];
  const int32_t* slot = rows.slots + static_cast<size_t>(slot_index) * rows.slot_words;
  const int32_t* bias = rows.biases + static_cast<size_t>(slot_index) * (1 + 2 * rows.entries);
  const float* logits = adjusts(slot, bias) ? rows.adjusted : rows.logits;
  return {slot, logits + static_cast<size_t>(sample) * rows.vocabulary, row};
}

// Result of each block that shares a row, for its part: [samples, SAMPLE_PART_WORDS, SAMPLE_PARTS].
enum SamplePartWord { PART_BEST_VALUE, PART_BEST_INDEX, PART_DRAWN_VALUE, PART_DRAWN_INDEX };

DEVICE void store_part(int32_t* parts, int sample, int part, SamplePartWord word, Indexed value) {
  int32_t* target = parts + (static_cast<size_t>(sample) * SAMPLE_PART_WORDS + word) * SAMPLE_PARTS + part;
  __builtin_memcpy(target, &value.value, 4);
  target[SAMPLE_PARTS] = value.index;
}
// The best of what the parts left: all threads of a block together.
DEVICE Indexed best_part(const int32_t* parts, int sample, SamplePartWord word) {
  const int32_t* source = parts + (static_cast<size_t>(sample) * SAMPLE_PART_WORDS + word) * SAMPLE_PARTS;
  Indexed best{-__builtin_inff(), 0x7fffffff};
  for (int i = thread_id(); i < SAMPLE_PARTS; i += BLOCK) {
    best = better_of(best, Indexed{as_float(source[i]), source[SAMPLE_PARTS + i]});
  }
  return block_argmax(best);
}

struct PartRange {
  int first, end;
};
DEVICE PartRange part_range(int part, int vocabulary, int parts = SAMPLE_PARTS) {
  const int size = (vocabulary + parts - 1) / parts;
  return {min_of(part * size, vocabulary), min_of((part + 1) * size, vocabulary)};
}

// State that the blocks that filter a row leave for the next ones: [samples, FILTER_WORDS]. First the row's Kept, then
// the is known of its candidates, then how many each part has, then their ids, then each part's bins.
enum FilterWord {
  FILTER_KEPT = 0,
  FILTER_TARGET = 8,  // the weight that candidates from the largest on have to reach
  FILTER_COUNTS = 10,
  FILTER_IDS = FILTER_COUNTS + FILTER_PARTS,
  FILTER_PART_BINS = FILTER_IDS + FILTER_PARTS * PART_CANDIDATES,
};
static_assert(FILTER_PART_BINS % 2 == 0 && FILTER_PART_BINS + 2 * FILTER_PARTS * FILTER_BINS == FILTER_WORDS, "");

template <class Word>
DEVICE Word* filter_of(Word* filters, int sample) {
  return filters + static_cast<size_t>(sample) * FILTER_WORDS;
}
DEVICE void store_u64(int32_t* words, uint64_t value) { __builtin_memcpy(words, &value, 8); }
DEVICE uint64_t load_u64(const int32_t* words) {
  uint64_t value;
  __builtin_memcpy(&value, words, 8);
  return value;
}
DEVICE void store_kept(int32_t* filter, const Kept& kept) {
  const float floats[] = {kept.largest, kept.typical.largest, kept.typical.inverse, kept.typical.expected};
  store_u64(filter + FILTER_KEPT, kept.threshold);
  store_u64(filter + FILTER_KEPT + 2, kept.typical.least);
  __builtin_memcpy(filter + FILTER_KEPT + 4, floats, 16);
}
DEVICE Kept load_kept(const int32_t* filter) {
  const int32_t* words = filter + FILTER_KEPT;
  return {load_u64(words),
          {as_float(words[5]), as_float(words[6]), as_float(words[7]), load_u64(words + 2)},
          as_float(words[4])};
}

// True if a row's threshold is searched by many blocks: in bins first, then among the candidates in few of them. What
// is typical is not found so.
DEVICE bool has_bins(const Sampling& s, int vocabulary) {
  return draws(s) && filters_any(s, vocabulary) && s.typical_p >= 1.0f;
}
// Which bin an element is in, the largest in the first: equal ones in the same, larger ones in none that comes later.
struct FilterBins {
  float largest, scale;
};
DEVICE FilterBins filter_bins(const Sampling& s, int vocabulary, float largest) {
  // top_p is about probabilities, so its bins are as fine as these are steep.
  constexpr float PER_UNIT = 16.0f;
  return {largest, has_top_k(s, vocabulary) ? PER_UNIT : PER_UNIT * max_of(s.inverse, 1.0f)};
}
DEVICE int bin_of(const FilterBins& bins, float logit) {
  return static_cast<int>(min_of((bins.largest - logit) * bins.scale, FILTER_BINS - 1.0f));
}

// Counts of the threads before this one, and of all of them: all threads of a block together.
struct CountBefore {
  int threads, total;
};
DEVICE CountBefore count_before(int own) {
  constexpr int GROUP = 16, GROUPS = (BLOCK + GROUP - 1) / GROUP;
  SHARED(int, counts, BLOCK);
  SHARED(int, groups, GROUPS);
  const int thread = thread_id(), group = thread / GROUP;
  counts[thread] = own;
  block_sync();
  for (int g = thread; g < GROUPS; g += BLOCK) {
    int sum = 0;
    for (int i = g * GROUP; i < min_of((g + 1) * GROUP, BLOCK); i++) sum += counts[i];
    groups[g] = sum;
  }
  block_sync();
  CountBefore before{0, 0};
  for (int g = 0; g < GROUPS; g++) {
    before.total += groups[g];
    if (g < group) before.threads += groups[g];
  }
  for (int i = group * GROUP; i < thread; i++) before.threads += counts[i];
  block_sync();
  return before;
}

// The threshold of the row's top_k or top_p among its candidates, and of its top_p among those that top_k leaves.
// ranks: the candidates'.
template <class Ranks>
DEVICE uint64_t candidate_threshold(const Ranks& ranks, int count, const Sampling& s, int vocabulary, float largest,
                                    uint64_t target) {
  const auto rank = [&](int i) -> uint64_t { return ranks[i]; };
  const auto mass = [&](int i) { return mass_of((logit_of(ranks[i]) - largest) * s.inverse); };
  const RankRange range = common_range(count, rank);
  if (!has_top_k(s, vocabulary)) return select_threshold<uint64_t>(count, target, rank, mass, range);
  const uint64_t least = select_threshold<int>(
      count, target, rank, [](int) { return 1; }, range);
  if (s.top_p >= 1.0f) return least;
  const auto left = [&](int i) -> uint64_t { return ranks[i] >= least ? mass(i) : 0; };
  const uint64_t share = max_of<uint64_t>(share_of(block_total(count, left), s.top_p), 1);
  return max_of(least, select_threshold<uint64_t>(count, share, rank, left, range));
}

}  // namespace forge
