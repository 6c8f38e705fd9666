// prompt_logprobs: log probability and rank of a prompt's next token, log probabilities of the n likeliest, from the
// raw logits
//
// A step's sampled rows come first, then the rows of prompts; only the latter are written. Equal logits: the lower id
// comes first.
#include "forge/log_softmax.h"
#include "forge/slot.h"

// One block a prompt row. A row of output is: token, its log probability, then top_max ids, then top_max log
// probabilities, then the token's rank, all 32-bit words; entries past what is wanted are not written.
KERNEL(prompt_logprobs, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict draws,                  // [1], how many rows are sampled
       const int32_t* __restrict target,                 // [samples, 2]: the next token, how many of the likeliest
       int32_t* __restrict output,                       // [samples, 3 + 2 * top_max]
       int top_max, int vocabulary) {
  using namespace forge;
  const int row = draws[0] + BLOCK_INDEX.x;
  int32_t* out = output + static_cast<size_t>(row) * (3 + 2 * top_max);
  const int token = target[2 * row];
  if (thread_id() == 0) out[0] = token;
  log_softmax_row(logits + static_cast<size_t>(row) * vocabulary, token, out, target[2 * row + 1], top_max, vocabulary);
}
