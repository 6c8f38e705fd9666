// Rotated heads on their way: queries in place, keys and values into the cache. For rotations of whole units.
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
DEVICE void rotate_pairs(Floats4& a, Floats4& b, const Floats4& c, const Floats4& s, int adjacent) {
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
struct RotatedRow {
  float* vectors;
  const float *cosine, *sine;  // of the row's position
  T *k_cache, *v_cache;
  const int32_t* block_table;
  int position, heads, kv_heads, head_dim, rotary, adjacent;
};

// Elements that a thread takes at a time.
constexpr int TURN_UNIT = 8;

template <class T>
DEVICE T* cached(const RotatedRow<T>& row, int head) {
  T* cache = head < row.heads + row.kv_heads ? row.k_cache : row.v_cache;
  return cache +
         kv_offset(row.block_table, row.position, row.kv_heads, (head - row.heads) % row.kv_heads, row.head_dim);
}

template <class T>
DEVICE bool rotates(const RotatedRow<T>& row, int head, int unit) {
  return head < row.heads + row.kv_heads && unit < row.rotary / TURN_UNIT;
}

// One unit of a head: eight elements, the first four from `a` on and the others from `b`, and what turns them.
struct RotatedUnit {
  bool rotated;
  int a, b;
  Floats4 first, second, cosine, sine;
};

// Which elements: known before the row is.
template <class T>
DEVICE RotatedUnit unit_of(const RotatedRow<T>& row, int head, int unit) {
  RotatedUnit u;
  u.rotated = rotates(row, head, unit);
  const bool is_split = u.rotated && !row.adjacent;
  u.a = is_split ? unit * 4 : unit * TURN_UNIT;
  u.b = is_split ? u.a + row.rotary / 2 : u.a + 4;
  return u;
}

template <class T>
DEVICE void load_unit(const RotatedRow<T>& row, int head, int unit, RotatedUnit& u) {
  const float* from = row.vectors + head * row.head_dim;
  u.first = load_aligned<Floats4>(from + u.a);
  u.second = load_aligned<Floats4>(from + u.b);
  if (!u.rotated) return;
  u.cosine = load_aligned<Floats4>(row.cosine + unit * 4);
  u.sine = load_aligned<Floats4>(row.sine + unit * 4);
}

template <class T>
DEVICE void rotate_and_store(const RotatedRow<T>& row, int head, RotatedUnit& u) {
  if (u.rotated) rotate_pairs(u.first, u.second, u.cosine, u.sine, row.adjacent);
  if (head < row.heads) {
    float* to = row.vectors + head * row.head_dim;
    store_four(to + u.a, u.first);
    store_four(to + u.b, u.second);
  } else {
    T* to = cached(row, head);
    store_four(to + u.a, u.first);
    store_four(to + u.b, u.second);
  }
}

}  // namespace forge
