// The experts that a row is sent to, and what their results are multiplied by: what route_experts.hip says.
#pragma once

#include "contract.h"
#include "experts.h"
#include "reduce.h"

namespace forge {

// Lower bound of the divisor of a row's normalized weights, the smallest normal f16: as llama.cpp.
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

struct Routing {
  const float* bias;  // [experts]
  int experts, used, scoring, normalizes;
  float scale;
  // Groups of consecutive experts, and how many a row is sent to. A group counts as its two best experts together.
  int groups = 1, used_groups = 1;
};

// Leaves no place among the chosen to experts of groups that are not among the best: all threads of a block together.
template <class Keys, class Values>
DEVICE void keep_best_groups(const Routing& by, Keys keys, Values values) {
  SHARED(int, group_keys, MOST_EXPERT_GROUPS);
  const int size = by.experts / by.groups;
  for (int g = thread_id(); g < by.groups; g += BLOCK) {
    float best = LOWEST, second = LOWEST;
    for (int e = g * size; e < (g + 1) * size; e++) {
      const float value = values[e] + by.bias[e];
      second = max_of(second, value < best ? value : best);
      best = max_of(best, value);
    }
    group_keys[g] = ordered(best + second);
  }
  block_sync();
  for (int e = thread_id(); e < by.experts; e += BLOCK) {
    const int own = e / size;
    int before = 0;
    for (int g = 0; g < by.groups; g++) before += is_before(group_keys[g], g, group_keys[own], own) ? 1 : 0;
    if (before >= by.used_groups) keys[e] = ordered(LOWEST);
  }
  block_sync();
}

// weights[i] of what is chosen, in order: thread `thread` of `threads`, of which each adds all of them up, as they are
// few.
template <class Chosen>
DEVICE void share_out(const Routing& by, Chosen chosen, float* weights, int thread, int threads) {
  const int used = by.used;
  float highest = LOWEST, total = 0.0f;
  if (by.scoring == ROUTE_CHOSEN) {
    for (int i = 0; i < used; i++) highest = max_of<float>(highest, chosen[i]);
    for (int i = 0; i < used; i++) total += exp_of(chosen[i] - highest);
  } else if (by.normalizes) {
    for (int i = 0; i < used; i++) total += chosen[i];
    total = max_of(total, SMALLEST_WEIGHT_SUM);
  } else {
    total = 1.0f;
  }
  for (int i = thread; i < used; i += threads) {
    const float value = by.scoring == ROUTE_CHOSEN ? exp_of(chosen[i] - highest) : +chosen[i];
    weights[i] = value / total * by.scale;
  }
}

// All threads of a block together. `scores` [experts], `ids` and `weights` [used].
DEVICE void route(const Routing& by, const float* scores, int32_t* ids, float* weights) {
  SHARED(float, values, MOST_EXPERTS);
  SHARED(int, keys, MOST_EXPERTS);
  SHARED(int, best, MOST_USED_EXPERTS);
  SHARED(float, chosen, MOST_USED_EXPERTS);
  const int experts = by.experts, used = by.used;

  float largest = LOWEST;
  for (int e = thread_id(); e < experts; e += BLOCK) largest = max_of(largest, +scores[e]);
  largest = block_max(largest);
  float sum = 0.0f;
  for (int e = thread_id(); e < experts; e += BLOCK) {
    const float score = scores[e];
    const float value = by.scoring == ROUTE_SIGMOID   ? 1.0f / (1.0f + exp_of(-score))
                        : by.scoring == ROUTE_SOFTMAX ? exp_of(score - largest)
                                                      : score;
    values[e] = value;
    sum += value;
  }
  sum = block_sum(sum);
  for (int e = thread_id(); e < experts; e += BLOCK) {
    const float value = by.scoring == ROUTE_SOFTMAX ? values[e] / sum : +values[e];
    values[e] = value;
    keys[e] = ordered(value + by.bias[e]);
  }
  block_sync();
  if (by.groups > 1) keep_best_groups(by, keys + 0, values + 0);
  for (int e = thread_id(); e < experts; e += BLOCK) {
    int before = 0;
    for (int other = 0; other < experts; other++) before += is_before(keys[other], other, keys[e], e) ? 1 : 0;
    if (before < used) best[before] = e;
  }
  block_sync();
  for (int i = thread_id(); i < used; i += BLOCK) {
    int place = 0;
    for (int other = 0; other < used; other++) place += best[other] < best[i] ? 1 : 0;
    ids[place] = best[i];
    chosen[place] = values[best[i]];
  }
  block_sync();
  share_out(by, chosen + 0, weights, thread_id(), BLOCK);
}

}  // namespace forge
