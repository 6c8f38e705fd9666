// route_experts: the experts that each row is sent to, and what their results are multiplied by
//
// softmax: the weights are parts of the softmax over all scores, of which the highest are chosen; sigmoid: each score's
// own; chosen: the softmax over the chosen alone. `bias` decides who is chosen and nothing else. Equal scores: the
// lower id. A row's experts come in the order of their ids, in which their results are added.
#include "forge/contract.h"
#include "forge/experts.h"
#include "forge/reduce.h"

namespace {
using namespace forge;

// What the weights of a row are divided by at least where they are normalized, the smallest normal f16: as llama.cpp.
constexpr float SMALLEST_WEIGHT_SUM = 6.103515625e-5f;

// A float as a whole number of the same order. A NaN has a place in it, too: a row of them has `used` experts as any.
DEVICE int ordered(float value) {
  int bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
DEVICE bool is_before(int key, int id, int other_key, int other_id) {
  return key > other_key || (key == other_key && id < other_id);
}
}  // namespace

// One block a row.
KERNEL(route_experts, const float* __restrict scores,  // [rows, experts]
       const float* __restrict bias,                   // [experts]
       int32_t* __restrict ids,                        // [rows, used]
       float* __restrict weights,                      // [rows, used]
       int experts, int used, int scoring, int normalizes, float scale) {
  SHARED(float, values, MOST_EXPERTS);
  SHARED(int, keys, MOST_EXPERTS);
  SHARED(int, taken, MOST_EXPERTS);
  SHARED(float, chosen, MOST_USED_EXPERTS);
  const int row = BLOCK_INDEX.x;
  const float* source = scores + static_cast<size_t>(row) * experts;

  float largest = LOWEST;
  for (int e = thread_id(); e < experts; e += BLOCK) largest = max_of(largest, source[e]);
  largest = block_max(largest);
  float sum = 0.0f;
  for (int e = thread_id(); e < experts; e += BLOCK) {
    const float score = source[e];
    const float value = scoring == ROUTE_SIGMOID   ? 1.0f / (1.0f + exp_of(-score))
                        : scoring == ROUTE_SOFTMAX ? exp_of(score - largest)
                                                   : score;
    values[e] = value;
    sum += value;
  }
  sum = block_sum(sum);
  for (int e = thread_id(); e < experts; e += BLOCK) {
    const float value = scoring == ROUTE_SOFTMAX ? values[e] / sum : +values[e];
    values[e] = value;
    keys[e] = ordered(value + bias[e]);
  }
  block_sync();
  for (int e = thread_id(); e < experts; e += BLOCK) {
    int before = 0;
    for (int other = 0; other < experts; other++) before += is_before(keys[other], other, keys[e], e) ? 1 : 0;
    taken[e] = before < used ? 1 : 0;
  }
  block_sync();
  for (int e = thread_id(); e < experts; e += BLOCK) {
    if (taken[e] == 0) continue;
    int place = 0;
    for (int other = 0; other < e; other++) place += taken[other];
    ids[static_cast<size_t>(row) * used + place] = e;
    chosen[place] = values[e];
  }
  block_sync();
  // So few that every thread adds them all up, in order.
  float highest = LOWEST, total = 0.0f;
  if (scoring == ROUTE_CHOSEN) {
    for (int i = 0; i < used; i++) highest = max_of<float>(highest, chosen[i]);
    for (int i = 0; i < used; i++) total += exp_of(chosen[i] - highest);
  } else if (normalizes) {
    for (int i = 0; i < used; i++) total += chosen[i];
    total = max_of(total, SMALLEST_WEIGHT_SUM);
  } else {
    total = 1.0f;
  }
  for (int i = thread_id(); i < used; i += BLOCK) {
    const float value = scoring == ROUTE_CHOSEN ? exp_of(chosen[i] - highest) : +chosen[i];
    weights[static_cast<size_t>(row) * used + i] = value / total * scale;
  }
}
