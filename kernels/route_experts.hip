// route_experts: the experts that each row is sent to, and what their results are multiplied by
//
// softmax: the weights are parts of the softmax over all scores, of which the highest are chosen; sigmoid: each score's
// own; chosen: the softmax over the chosen alone. `bias` decides who is chosen and nothing else. Of several groups of
// experts only those of the best are chosen: DeepSeek-V3 (2024), section 2.1.2. Equal scores: the
// lower id. A row's experts come in the order of their ids, in which their results are added.
#include "forge/route.h"

// One block a row.
KERNEL(route_experts, const float* __restrict scores,  // [rows, experts]
       const float* __restrict bias,                   // [experts]
       int32_t* __restrict ids,                        // [rows, used]
       float* __restrict weights,                      // [rows, used]
       int experts, int used, int scoring, int normalizes, int groups, int used_groups, float scale) {
  const size_t row = BLOCK_INDEX.x;
  const forge::Routing by{bias, experts, used, scoring, normalizes, scale, groups, used_groups};
  route(by, scores + row * experts, ids + row * used, weights + row * used);
}
