// token_mask: logits[token] = -inf, for the tokens that a row's mask does not allow
//
// Rows without a mask stay as they are. Of a row whose mask has not come in time nothing is left: no token is drawn for
// it, and the step after next tries again.
#include "forge/sampling.h"

// Grid: x = SAMPLE_PARTS, y = samples.
KERNEL(token_mask, float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict row_mask,    // [samples]: index of its mask, MASK_NONE or MASK_LATE
       const int32_t* __restrict masks,       // [masks, mask_words]: bit i % 32 of word i / 32 allows token i
       int mask_words, int vocabulary) {
  using namespace forge;
  const int sample = BLOCK_INDEX.y, index = row_mask[sample];
  if (index == MASK_NONE) return;
  const int32_t* mask = masks + static_cast<size_t>(index == MASK_LATE ? 0 : index) * mask_words;
  float* row = logits + static_cast<size_t>(sample) * vocabulary;
  const PartRange range = part_range(BLOCK_INDEX.x, vocabulary);
  for (int i = range.first + thread_id(); i < range.end; i += BLOCK) {
    const bool is_allowed = index != MASK_LATE && ((mask[i / 32] >> (i % 32)) & 1) != 0;
    if (!is_allowed) row[i] = -__builtin_inff();
  }
}
