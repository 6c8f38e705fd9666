// penalties: lowers the logits of tokens that a sequence holds already
//
// repetition r: a logit l > 0 becomes l / r, else l * r, for tokens of the prompt and generated ones (Keskar et al.,
// "CTRL", 2019); frequency f: - f for each time the token was generated; presence p: - p if it was generated at all.
// A row behind draft tokens holds them, too, as if they had been generated.
#include "forge/drafts.h"

namespace forge {

struct Penalties {
  float repetition, frequency, presence;
};
DEVICE float lowered(float value, int generated, const Penalties& by) {
  value = value > 0.0f ? value / by.repetition : value * by.repetition;
  if (generated > 0) value -= by.frequency * static_cast<float>(generated) + by.presence;
  return value;
}

// Number of times that a token is among the draft tokens first .. end - 1.
DEVICE int times_drafted(const int32_t* sample_row, const int32_t* row_token, int first, int end, int token) {
  int times = 0;
  for (int draft = first; draft < end; draft++) times += row_token[sample_row[draft]] == token ? 1 : 0;
  return times;
}

}  // namespace forge

// One block a sampled row.
KERNEL(penalties, float* __restrict logits,   // [samples, vocabulary]
       const int32_t* __restrict sample_row,  // [samples]
       const int32_t* __restrict row_slot,    // [tokens]
       const int32_t* __restrict row_token,   // [tokens]
       const int32_t* __restrict slots,       // [slots, slot_words]
       const int32_t* __restrict history,     // [slots, 1 + 2 * entries]: how many; then token, times generated
       int slot_words, int entries, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.x, slot_index = slot_of(sample_row, row_slot, sample);
  const int32_t* slot = slots + static_cast<size_t>(slot_index) * slot_words;
  const int32_t* seen = history + static_cast<size_t>(slot_index) * (1 + 2 * entries);
  const int held = seen[0];
  if (held < 0) return;
  float* l = logits + static_cast<size_t>(sample) * vocabulary;
  const Penalties by{as_float(slot[SLOT_REPETITION_PENALTY]), as_float(slot[SLOT_FREQUENCY_PENALTY]),
                     as_float(slot[SLOT_PRESENCE_PENALTY])};
  const int first = first_of_slot(sample_row, row_slot, sample) + 1, end = sample + 1;
  // A token is in the history once, so no two threads change the same logit.
  for (int i = thread_id(); i < held; i += BLOCK) {
    const int token = seen[1 + 2 * i];
    const int generated = seen[2 + 2 * i] + times_drafted(sample_row, row_token, first, end, token);
    l[token] = lowered(l[token], generated, by);
  }
  SHARED(int, found, 1);
  for (int draft = first; draft < end; draft++) {
    const int token = row_token[sample_row[draft]];
    if (times_drafted(sample_row, row_token, first, draft, token) > 0) continue;
    if (thread_id() == 0) found[0] = 0;
    block_sync();
    for (int i = thread_id(); i < held; i += BLOCK) {
      if (seen[1 + 2 * i] == token) found[0] = 1;
    }
    block_sync();
    if (thread_id() == 0 && found[0] == 0) {
      l[token] = lowered(l[token], times_drafted(sample_row, row_token, first, end, token), by);
    }
  }
}
