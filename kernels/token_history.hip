// token_history: counts the token each row has just sampled in its slot's history, for penalties
//
// A token that is not in the history is added at its end; a full history stays as it is. A negative length means that
// the slot has no penalties and keeps no history. A row that no token could be drawn for changes nothing.
#include "forge/slot.h"

// One block a sampled row; a slot is sampled once a step.
KERNEL(token_history, const int32_t* __restrict sample_row,  // [samples]
       const int32_t* __restrict row_slot,                   // [tokens]
       const int32_t* __restrict output,                     // [samples, output_words]; word 0 is the token, see slot.h
       int32_t* __restrict history,                          // [slots, 1 + 2 * entries]: how many; then token, count
       int output_words, int entries) {
  using namespace forge;
  const int slot = row_slot[sample_row[BLOCK_INDEX.x]];
  const int token = output[static_cast<size_t>(BLOCK_INDEX.x) * output_words];
  int32_t* seen = history + static_cast<size_t>(slot) * (1 + 2 * entries);
  const int count = seen[0];
  if (count < 0 || token == OUTPUT_NON_FINITE) return;
  SHARED(int, found, 1);
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
}
