// log_softmax_top: log probability and rank of the sampled token, log probabilities of the n likeliest, from the raw
// logits
//
// Rows whose slot asks for none are left alone. Equal logits: the lower id comes first.
#include "forge/log_softmax.h"
#include "forge/slot.h"

// One block a sampled row. A row of output is: token, its log probability, then top_max ids, then top_max log
// probabilities, then the token's rank, all 32-bit words; entries past what the slot asked for are not written.
// Of a slot that names tokens, which asks for no likeliest, their ranks are in the places of the ids.
KERNEL(log_softmax_top, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,             // [samples]
       const int32_t* __restrict row_slot,               // [tokens]
       const int32_t* __restrict slots,                  // [slots, slot_words]
       const int32_t* __restrict biases,                 // [slots, 1 + 2 * entries], see logit_bias
       int32_t* __restrict output,                       // [samples, 3 + 2 * top_max]
       int slot_words, int entries, int top_max, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* out = output + static_cast<size_t>(sample) * (3 + 2 * top_max);
  const size_t slot = row_slot[sample_row[sample]];
  const int wanted = slots[slot * slot_words + SLOT_LOGPROBS] - 1;
  if (wanted < 0) return;

  const float log_sum = log_softmax_row(l, out[0] & ~OUTPUT_NON_FINITE, out, wanted, top_max, vocabulary);
  const int given = min_of(slots[slot * slot_words + SLOT_CHOSEN_LOGPROBS], top_max);
  write_given(l, biases + slot * (1 + 2 * entries), given, log_sum, out, top_max, vocabulary);
}
