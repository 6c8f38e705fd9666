// Turned heads on their way: queries in place, keys and values into the cache. For rotations of whole units.
#pragma once

#include "forge/rope.h"
#include "forge/slot.h"
#include "forge/words.h"

namespace forge {

DEVICE void store_four(float* p, const Floats4& values) { store_aligned(p, values); }
DEVICE void store_four(half_t* p, const Floats4& values) {
  half_t halves[4];
  UNROLL
  for (int i = 0; i < 4; i++) halves[i] = to_half(values.f[i]);
  Words2 words;
  __builtin_memcpy(&words, halves, sizeof(words));
  store_aligned(p, words);
}

// Turns the pairs of which four elements are `a` and four are `b`: neighbours in each, or one in either.
DEVICE void turn(Floats4& a, Floats4& b, const Floats4& c, const Floats4& s, int adjacent) {
  UNROLL
  for (int i = 0; i < 4; i++) {
    Floats4& pair = i < 2 ? a : b;
    float &x = adjacent ? pair.f[i % 2 * 2] : a.f[i], &y = adjacent ? pair.f[i % 2 * 2 + 1] : b.f[i];
    const float from_x = x, from_y = y;
    x = multiply_add(from_x, c.f[i], -(from_y * s.f[i]));
    y = multiply_add(from_x, s.f[i], from_y * c.f[i]);
  }
}

// One row of q, k and v, and where its keys and values go.
template <class T>
struct TurnedRow {
  float* vectors;
  const float *cosine, *sine;  // of the row's position
  T *k_cache, *v_cache;
  const int32_t* block_table;
  int position, heads, kv_heads, head_dim, rotary, adjacent;
};

// Elements that a thread takes at a time.
constexpr int TURN_UNIT = 8;

template <class T>
DEVICE T* cached(const TurnedRow<T>& row, int head) {
  T* cache = head < row.heads + row.kv_heads ? row.k_cache : row.v_cache;
  return cache +
         kv_offset(row.block_table, row.position, row.kv_heads, (head - row.heads) % row.kv_heads, row.head_dim);
}

template <class T>
DEVICE bool turns(const TurnedRow<T>& row, int head, int unit) {
  return head < row.heads + row.kv_heads && unit < row.rotary / TURN_UNIT;
}

// Moves one unit of a head; `adjust(values, at)` changes four elements, of which the first is `at`, before they turn.
template <class T, class Adjust>
DEVICE void move_unit(const TurnedRow<T>& row, int head, int unit, Adjust adjust) {
  const bool turned = turns(row, head, unit), is_split = turned && !row.adjacent;
  const int a = is_split ? unit * 4 : unit * TURN_UNIT, b = is_split ? a + row.rotary / 2 : a + 4;
  float* from = row.vectors + head * row.head_dim;
  auto first = load_aligned<Floats4>(from + a), second = load_aligned<Floats4>(from + b);
  adjust(first, a);
  adjust(second, b);
  if (turned) {
    const auto c = load_aligned<Floats4>(row.cosine + unit * 4), s = load_aligned<Floats4>(row.sine + unit * 4);
    turn(first, second, c, s, row.adjacent);
  }
  if (head < row.heads) {
    store_four(from + a, first);
    store_four(from + b, second);
  } else {
    T* to = cached(row, head);
    store_four(to + a, first);
    store_four(to + b, second);
  }
}

}  // namespace forge
