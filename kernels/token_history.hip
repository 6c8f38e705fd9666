// token_history: counts the tokens that a step has sampled in their slots' histories, for penalties
//
// A token that is not in the history is added at its end; a full history stays as it is. A negative length means that
// the slot has no penalties and keeps no history. Behind draft tokens, what a row samples counts as long as the draft
// tokens up to it are what was sampled; see draft tokens.h. A row that no token could be drawn for changes nothing, and
// ends that, too.
#include "forge/drafts.h"

// One block a sampled row, of which the first of each slot counts for all of that slot.
KERNEL(token_history, const int32_t* __restrict draws,  // [1], how many rows are sampled: the grid may be larger
       const int32_t* __restrict sample_row,            // [samples]
       const int32_t* __restrict row_slot,              // [tokens]
       const int32_t* __restrict row_token,             // [tokens]
       const int32_t* __restrict output,                // [samples, output_words]; word 0 is the token, see slot.h
       int32_t* __restrict history,                     // [slots, 1 + 2 * entries]: how many; then token, count
       int output_words, int entries) {
  using namespace forge;
  int sample = BLOCK_INDEX.x;
  const int slot = slot_of(sample_row, row_slot, sample);
  int32_t* seen = history + static_cast<size_t>(slot) * (1 + 2 * entries);
  if (seen[0] < 0 || first_of_slot(sample_row, row_slot, sample) != sample) return;
  SHARED(int, found, 1);
  for (;;) {
    const int token = output[static_cast<size_t>(sample) * output_words], count = seen[0];
    if (token == OUTPUT_NON_FINITE) return;
    if (thread_id() == 0) found[0] = 0;
    block_sync();
    for (int i = thread_id(); i < count; i += BLOCK) {
      if (seen[1 + 2 * i] == token) {
        seen[2 + 2 * i]++;
        found[0] = 1;
      }
    }
    block_sync();
    if (thread_id() == 0 && found[0] == 0 && count < entries) {
      seen[1 + 2 * count] = token;
      seen[2 + 2 * count] = 1;
      seen[0] = count + 1;
    }
    sample++;
    if (sample >= draws[0] || slot_of(sample_row, row_slot, sample) != slot) return;
    if (row_token[sample_row[sample]] != token) return;
    block_sync();
  }
}
