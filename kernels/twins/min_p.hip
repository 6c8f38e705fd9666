// min_p: sets to -inf every logit whose probability is below a share p of the best one's
#include "forge/select.h"

// One block a row.
KERNEL(min_p, float* __restrict logits,  // [rows, vocabulary], already divided by the temperature
       const float* __restrict p,        // [rows]; 0 keeps all
       int vocabulary) {
  using namespace forge;
  float* l = logits + static_cast<size_t>(BLOCK_INDEX.x) * vocabulary;
  const float share = p[BLOCK_INDEX.x];
  if (!(share > 0.0f)) return;
  const float largest = block_argmax(row_best(l, vocabulary)).value;
  for (int i = thread_id(); i < vocabulary; i += BLOCK) {
    if (exp_of(l[i] - largest) < share) l[i] = -__builtin_inff();
  }
}
