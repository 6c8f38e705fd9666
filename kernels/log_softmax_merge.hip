// log_softmax_merge: log_softmax_top from what likeliest_parts left, with the same bits
#include "forge/log_softmax.h"
#include "forge/sampling.h"

// One block a sampled row. A row of output is log_softmax_top's.
KERNEL(log_softmax_merge, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,               // [samples]
       const int32_t* __restrict row_slot,                 // [tokens]
       const int32_t* __restrict slots,                    // [slots, slot_words]
       const int32_t* __restrict biases,                   // [slots, 1 + 2 * entries], see logit_bias
       const int32_t* __restrict likeliest,                // [samples, SAMPLE_PARTS, top_max], ids
       int32_t* __restrict output,                         // [samples, 3 + 2 * top_max]
       int slot_words, int entries, int top_max, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* out = output + static_cast<size_t>(sample) * (3 + 2 * top_max);
  const size_t slot = row_slot[sample_row[sample]];
  const int asked = slots[slot * slot_words + SLOT_LOGPROBS] - 1;
  if (asked < 0) return;
  const float log_sum = write_own(l, out[0] & ~OUTPUT_NON_FINITE, out, top_max, vocabulary);
  float* values = reinterpret_cast<float*>(out);

  const int given = min_of(slots[slot * slot_words + SLOT_CHOSEN_LOGPROBS], top_max);
  write_given(l, biases + slot * (1 + 2 * entries), given, log_sum, out, top_max, vocabulary);

  const int of_part = min_of(asked, top_max);
  if (of_part == 0) return;
  SHARED(float, best_logits, SAMPLE_PARTS* TOP_LOGPROBS_MAX);
  SHARED(int, best_ids, SAMPLE_PARTS* TOP_LOGPROBS_MAX);
  const int count = SAMPLE_PARTS * of_part;
  for (int i = thread_id(); i < count; i += BLOCK) {
    const int id = likeliest[(static_cast<size_t>(sample) * SAMPLE_PARTS + i / of_part) * top_max + i % of_part];
    best_ids[i] = id;
    best_logits[i] = id == NO_ELEMENT ? -__builtin_inff() : l[id];
  }
  block_sync();
  constexpr int HELD = (SAMPLE_PARTS * TOP_LOGPROBS_MAX + BLOCK - 1) / BLOCK;
  likeliest_held<HELD>(
      count, min_of(of_part, vocabulary),
      [&](int i) {
        return Indexed{best_logits[i], best_ids[i]};
      },
      [&](int n, const Indexed& best) {
        out[2 + n] = best.index;
        values[2 + top_max + n] = best.value - log_sum;
      });
}
