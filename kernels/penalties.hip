// penalties: lowers the logits of tokens that a sequence holds already
//
// repetition r: a logit l > 0 becomes l / r, else l * r, for tokens of the prompt and generated ones (Keskar et al.,
// "CTRL", 2019); frequency f: - f for each time the token was generated; presence p: - p if it was generated at all.
#include "forge/slot.h"

// One block a sampled row.
KERNEL(penalties, float* __restrict logits,   // [samples, vocabulary]
       const int32_t* __restrict sample_row,  // [samples]
       const int32_t* __restrict row_slot,    // [tokens]
       const int32_t* __restrict slots,       // [slots, slot_words]
       const int32_t* __restrict history,     // [slots, 1 + 2 * entries]: how many; then token, times generated
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int slot_index = row_slot[sample_row[BLOCK_INDEX.x]];
  const int32_t* slot = slots + static_cast<size_t>(slot_index) * slot_words;
  const int32_t* seen = history + static_cast<size_t>(slot_index) * (1 + 2 * entries);
  float* l = logits + static_cast<size_t>(BLOCK_INDEX.x) * vocabulary;
  const float repetition = as_float(slot[SLOT_REPETITION_PENALTY]);
  const float frequency = as_float(slot[SLOT_FREQUENCY_PENALTY]), presence = as_float(slot[SLOT_PRESENCE_PENALTY]);
  // A token is in the history once, so no two threads change the same logit.
  for (int i = thread_id(); i < seen[0]; i += BLOCK) {
    const int token = seen[1 + 2 * i], generated = seen[2 + 2 * i];
    float value = l[token];
    value = value > 0.0f ? value / repetition : value * repetition;
    if (generated > 0) value -= frequency * static_cast<float>(generated) + presence;
    l[token] = value;
  }
}
