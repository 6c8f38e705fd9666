// logit_bias: logits[token] += bias, for the tokens that a row's slot names
#include "forge/slot.h"

// One block a sampled row.
KERNEL(logit_bias, float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,  // [samples]
       const int32_t* __restrict row_slot,    // [tokens]
       const int32_t* __restrict biases,      // [slots, 1 + 2 * entries]: how many; then token, f32 bits of its bias
       int entries, int vocabulary) {
  using namespace forge;
  const int32_t* bias = biases + static_cast<size_t>(row_slot[sample_row[BLOCK_INDEX.x]]) * (1 + 2 * entries);
  float* l = logits + static_cast<size_t>(BLOCK_INDEX.x) * vocabulary;
  // A token is named once, so no two threads change the same logit.
  for (int i = thread_id(); i < bias[0]; i += BLOCK) l[bias[1 + 2 * i]] += as_float(bias[2 + 2 * i]);
}
