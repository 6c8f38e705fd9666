// attention_paged: out = softmax(scale * q kᵀ) v over the positions 0 .. row_position of the row's slot
//
// Causal attention of any row, prompt or generated, over the paged KV cache; query heads share KV heads in groups (GQA).
// Softmax is taken online (Milakov & Gimelshein 2018), one KV block at a time. The context is split at absolute
// positions, every SPLIT tokens, and the splits are folded in order: a row's bits depend on its own context alone.
#include "forge/dot.h"
#include "forge/slot.h"

namespace {
using namespace forge;

constexpr int SPLIT = 256;

// What attention over some positions amounts to: the largest score, the sum of e^(score - largest), and the sum of
// e^(score - largest) * v, of which each lane holds the elements lane, lane + WAVE, ...
template <int E>
struct Partial {
  float largest, sum, values[E];
};
template <int E>
DEVICE void clear(Partial<E>& p) {
  p.largest = LOWEST;
  p.sum = 0.0f;
  UNROLL for (int e = 0; e < E; e++) p.values[e] = 0.0f;
}

// Folds `next` into `total`.
template <int E>
DEVICE void fold(Partial<E>& total, const Partial<E>& next) {
  const float largest = max_of(total.largest, next.largest);
  const float a = exp_of(total.largest - largest), b = exp_of(next.largest - largest);
  total.largest = largest;
  total.sum = total.sum * a + next.sum * b;
  UNROLL for (int e = 0; e < E; e++) total.values[e] = total.values[e] * a + next.values[e] * b;
}

// q · k over one head; every lane gets the sum.
template <int HEAD_DIM, class T>
DEVICE float score(const float* q, const T* k) {
  return wave_sum(dot(k, q, HEAD_DIM));
}

// Adds one KV block's first `count` tokens.
template <int HEAD_DIM, int E, class T>
DEVICE void add_block(Partial<E>& p, const float* q, const T* k, const T* v, int count, float scale) {
  float weight[KV_BLOCK_TOKENS];
  float largest = p.largest;
  for (int j = 0; j < count; j++) {
    weight[j] = score<HEAD_DIM>(q, k + j * HEAD_DIM) * scale;
    largest = max_of(largest, weight[j]);
  }
  const float correction = exp_of(p.largest - largest);
  p.largest = largest;
  p.sum *= correction;
  UNROLL for (int e = 0; e < E; e++) p.values[e] *= correction;
  for (int j = 0; j < count; j++) {
    const float w = exp_of(weight[j] - largest);
    p.sum += w;
    accumulate<HEAD_DIM>(p.values, v + j * HEAD_DIM, w);
  }
}

// Grid: x = heads, y = tokens. The waves of a block take a split's KV blocks in turn.
template <int HEAD_DIM, class T>
DEVICE void attention_paged(Dim3 block, const float* __restrict qkv, const T* __restrict k_cache,
                            const T* __restrict v_cache, float* __restrict out, const int32_t* __restrict row_position,
                            const int32_t* __restrict row_slot, const int32_t* __restrict slots, int slot_words,
                            int heads, int kv_heads, float scale) {
  constexpr int E = lane_elements(HEAD_DIM);
  const int head = block.x, row = block.y, kv_head = head / (heads / kv_heads);
  const int length = row_position[row] + 1;
  const int32_t* block_table = slots + static_cast<size_t>(row_slot[row]) * slot_words + SLOT_BLOCK_TABLE;
  const float* q = qkv + (static_cast<size_t>(row) * (heads + 2 * kv_heads) + head) * HEAD_DIM;

  SHARED(float, wave_largest, WAVES);
  SHARED(float, wave_sums, WAVES);
  SHARED(float, wave_values, (WAVES * E * WAVE));

  Partial<E> total;
  clear(total);
  for (int split = 0; split < length; split += SPLIT) {
    Partial<E> part;
    clear(part);
    const int end = min_of(length, split + SPLIT);
    for (int first = split + wave_id() * KV_BLOCK_TOKENS; first < end; first += WAVES * KV_BLOCK_TOKENS) {
      const size_t kv_block = block_table[first / KV_BLOCK_TOKENS];
      const size_t offset = (kv_block * kv_heads + kv_head) * KV_BLOCK_TOKENS * HEAD_DIM;
      add_block<HEAD_DIM>(part, q, k_cache + offset, v_cache + offset, min_of(KV_BLOCK_TOKENS, end - first), scale);
    }
    if (WAVES > 1) {
      if (lane_id() == 0) {
        wave_largest[wave_id()] = part.largest;
        wave_sums[wave_id()] = part.sum;
      }
      UNROLL for (int e = 0; e < E; e++) wave_values[(wave_id() * E + e) * WAVE + lane_id()] = part.values[e];
      block_sync();
      clear(part);
      for (int w = 0; w < WAVES; w++) {
        Partial<E> other;
        other.largest = wave_largest[w];
        other.sum = wave_sums[w];
        UNROLL for (int e = 0; e < E; e++) other.values[e] = wave_values[(w * E + e) * WAVE + lane_id()];
        fold(part, other);
      }
      block_sync();
    }
    fold(total, part);
  }

  if (wave_id() != 0) return;
  float* target = out + (static_cast<size_t>(row) * heads + head) * HEAD_DIM;
  const float inverse = 1.0f / total.sum;
  UNROLL for (int e = 0; e < E; e++) {
    const int i = e * WAVE + lane_id();
    if (i < HEAD_DIM) target[i] = total.values[e] * inverse;
  }
}
}  // namespace

#define ATTENTION_PAGED(name, type, head_dim)                                                                    \
  KERNEL(name, const float* __restrict qkv,   /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */          \
         const type* __restrict k_cache,      /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                \
         const type* __restrict v_cache,      /* the same */                                                     \
         float* __restrict out,               /* [tokens, heads, head_dim] */                                    \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */              \
         const int32_t* __restrict slots,     /* [slots, slot_words] */                                          \
         int slot_words, int heads, int kv_heads, float scale) {                                                 \
    attention_paged<head_dim>(BLOCK_INDEX, qkv, k_cache, v_cache, out, row_position, row_slot, slots, slot_words, \
                              heads, kv_heads, scale);                                                           \
  }
#define ATTENTION_PAGED_TYPES(head_dim)                           \
  ATTENTION_PAGED(attention_paged_f32_d##head_dim, float, head_dim) \
  ATTENTION_PAGED(attention_paged_f16_d##head_dim, forge::half_t, head_dim)

ATTENTION_PAGED_TYPES(8)
ATTENTION_PAGED_TYPES(16)
ATTENTION_PAGED_TYPES(32)
ATTENTION_PAGED_TYPES(48)
ATTENTION_PAGED_TYPES(64)
ATTENTION_PAGED_TYPES(80)
ATTENTION_PAGED_TYPES(96)
ATTENTION_PAGED_TYPES(112)
ATTENTION_PAGED_TYPES(128)
ATTENTION_PAGED_TYPES(256)
