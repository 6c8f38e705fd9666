// log_softmax_top: log probability of the sampled token and of the n likeliest, from the raw logits
//
// Rows whose slot asks for none are left alone. Equal logits: the lower id comes first.
#include "forge/select.h"
#include "forge/slot.h"

// One block a sampled row. A row of output is: token, its log probability, then top_max ids, then top_max log
// probabilities, all 32-bit words; entries past what the slot asked for are not written.
KERNEL(log_softmax_top, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,             // [samples]
       const int32_t* __restrict row_slot,               // [tokens]
       const int32_t* __restrict slots,                  // [slots, slot_words]
       int32_t* __restrict output,                       // [samples, 2 + 2 * top_max]
       int slot_words, int top_max, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x;
  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* out = output + static_cast<size_t>(sample) * (2 + 2 * top_max);
  const int wanted = slots[static_cast<size_t>(row_slot[sample_row[sample]]) * slot_words + SLOT_LOGPROBS] - 1;
  if (wanted < 0) return;

  float largest = LOWEST;
  SIMD_MAX(largest)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) largest = max_of(largest, l[i]);
  largest = block_max(largest);
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < vocabulary; i += BLOCK) sum += exp_of(l[i] - largest);
  const float log_sum = largest + log_of(block_sum(sum));

  float* values = reinterpret_cast<float*>(out);
  if (thread_id() == 0) values[1] = l[out[0]] - log_sum;
  uint64_t last = ~static_cast<uint64_t>(0);
  for (int n = 0; n < min_of(wanted, min_of(top_max, vocabulary)); n++) {
    Indexed best{-__builtin_inff(), 0x7fffffff};
    for (int i = thread_id(); i < vocabulary; i += BLOCK) {
      if (rank_of(l[i], i) < last) best = better_of(best, Indexed{l[i], i});
    }
    best = block_argmax(best);
    last = rank_of(best.value, best.index);
    if (thread_id() == 0) {
      out[2 + n] = best.index;
      values[2 + top_max + n] = best.value - log_sum;
    }
  }
}
