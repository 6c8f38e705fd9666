// Rotary position embedding of one head: Su et al., "RoFormer" (2021).
#pragma once

#include "device.h"

namespace forge {

// Turns pair j of `from` by the angle whose cosine and sine are entry j of the tables, into `to`, which may be `from`.
// Pairs are adjacent elements (2j, 2j + 1), as in llama, or halves (j, j + rotary / 2), as in qwen2. Elements from
// `rotary` on are copied. All threads of a block take part.
template <class T>
DEVICE void rotate(const float* from, T* to, const float* cosine, const float* sine, int head_dim, int rotary,
                   int adjacent) {
  const int half = rotary / 2;
  for (int j = thread_id(); j < half; j += BLOCK) {
    const int a = adjacent ? 2 * j : j;
    const int b = adjacent ? 2 * j + 1 : j + half;
    const float x = from[a], y = from[b];
    // Written out, so that every kernel that turns gets the same bits.
    store(to + a, multiply_add(x, cosine[j], -(y * sine[j])));
    store(to + b, multiply_add(x, sine[j], y * cosine[j]));
  }
  for (int i = rotary + thread_id(); i < head_dim; i += BLOCK) store(to + i, from[i]);
}

}  // namespace forge
