// rope_kv_append: rotates q and k by their position, in place for q, into the cache for k; stores v as it is
//
// rope and kv_append in one launch. Pair j is turned by the angle of table row `position`, column j.
#include "forge/rope.h"
#include "forge/slot.h"
#include "forge/words.h"

namespace {
using namespace forge;

// Elements that a thread takes at a time.
constexpr int UNIT = 8;

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

// Grid: x = (heads + 2 * kv_heads) / ROPE_HEADS (q heads, then k heads, then v heads), y = tokens.
template <class T>
DEVICE void rope_kv_append(Dim3 block, float* qkv, T* k_cache, T* v_cache, const float* cosine, const float* sine,
                           const int32_t* row_position, const int32_t* row_slot, const int32_t* slots, int slot_words,
                           int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  const int row = block.y, position = row_position[row], all_heads = heads + 2 * kv_heads;
  const int first_head = block.x * ROPE_HEADS, end_head = min_of(first_head + ROPE_HEADS, all_heads);
  float* vectors = qkv + static_cast<size_t>(row) * all_heads * head_dim;
  const float* c = cosine + static_cast<size_t>(position) * (rotary / 2);
  const float* s = sine + static_cast<size_t>(position) * (rotary / 2);
  const int32_t* block_table = block_table_of(slots, row_slot[row], slot_words);
  const auto cached = [&](int head) {
    T* cache = head < heads + kv_heads ? k_cache : v_cache;
    return cache + kv_offset(block_table, position, kv_heads, (head - heads) % kv_heads, head_dim);
  };

  if (rotary % UNIT != 0) {
    for (int head = first_head; head < end_head; head++) {
      float* vector = vectors + head * head_dim;
      if (head < heads) {
        rotate(vector, vector, c, s, head_dim, rotary, adjacent);
      } else {
        rotate(vector, cached(head), c, s, head_dim, head < heads + kv_heads ? rotary : 0, adjacent);
      }
    }
    return;
  }
  const int units = head_dim / UNIT;
  for (int i = thread_id(); i < (end_head - first_head) * units; i += BLOCK) {
    const int head = first_head + i / units, unit = i % units;
    const bool turns = head < heads + kv_heads && unit < rotary / UNIT;
    if (head < heads && !turns) continue;
    const bool is_split = turns && !adjacent;
    const int a = is_split ? unit * 4 : unit * UNIT, b = is_split ? a + rotary / 2 : a + 4;
    float* vector = vectors + head * head_dim;
    auto first = load_aligned<Floats4>(vector + a), second = load_aligned<Floats4>(vector + b);
    if (turns) {
      turn(first, second, load_aligned<Floats4>(c + unit * 4), load_aligned<Floats4>(s + unit * 4), adjacent);
    }
    if (head < heads) {
      store_four(vector + a, first);
      store_four(vector + b, second);
    } else {
      T* to = cached(head);
      store_four(to + a, first);
      store_four(to + b, second);
    }
  }
}

}  // namespace

KERNEL(rope_kv_append_f32, float* qkv,  // [tokens, heads + 2 * kv_heads, head_dim]
       float* __restrict k_cache,       // [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]
       float* __restrict v_cache,       // the same
       const float* __restrict cosine,  // [max_position, rotary / 2]
       const float* __restrict sine,    // the same
       const int32_t* __restrict row_position, const int32_t* __restrict row_slot,  // [tokens]
       const int32_t* __restrict slots,                                             // [slots, slot_words]
       int slot_words, int heads, int kv_heads, int head_dim, int rotary, int adjacent) {
  rope_kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, cosine, sine, row_position, row_slot, slots, slot_words, heads,
                 kv_heads, head_dim, rotary, adjacent);
}

KERNEL(rope_kv_append_f16, float* qkv, forge::half_t* __restrict k_cache, forge::half_t* __restrict v_cache,
       const float* __restrict cosine, const float* __restrict sine, const int32_t* __restrict row_position,
       const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words, int heads, int kv_heads,
       int head_dim, int rotary, int adjacent) {
  rope_kv_append(BLOCK_INDEX, qkv, k_cache, v_cache, cosine, sine, row_position, row_slot, slots, slot_words, heads,
                 kv_heads, head_dim, rotary, adjacent);
}
