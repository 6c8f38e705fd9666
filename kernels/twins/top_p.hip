// top_p: sets to -inf all but the fewest, largest logits of each row that hold a share p of the softmax's mass
//
// Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020). The largest is always kept.
#include "forge/select.h"

// One block a row.
KERNEL(top_p, float* __restrict logits,  // [rows, vocabulary], already divided by the temperature
       const float* __restrict p,        // [rows]; 1 keeps all
       int vocabulary) {
  using namespace forge;
  float* l = logits + static_cast<size_t>(BLOCK_INDEX.x) * vocabulary;
  const float share = p[BLOCK_INDEX.x];
  if (!(share < 1.0f)) return;
  const float largest = block_argmax(row_best(l, vocabulary)).value;
  mask_below(l, vocabulary, top_p_threshold(l, vocabulary, share, largest, 1.0f, [](int) { return true; }));
}
