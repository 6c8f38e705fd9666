// top_k: sets all but the k largest logits of each row to -inf
//
// Equal logits: the lower ids are kept. k = 0 keeps all.
#include "forge/select.h"

// One block a row.
KERNEL(top_k, float* __restrict logits,  // [rows, vocabulary]
       const int32_t* __restrict k,      // [rows]
       int vocabulary) {
  using namespace forge;
  float* l = logits + static_cast<size_t>(BLOCK_INDEX.x) * vocabulary;
  const uint64_t threshold = top_k_threshold(l, vocabulary, k[BLOCK_INDEX.x]);
  mask_below(l, vocabulary, threshold);
}
