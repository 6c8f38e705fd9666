// A KV cache in q8_0: 32 neighbouring elements of a head's vector are int8 with one f16 scale, largest / 127 rounded.
// The KV_BLOCK_TOKENS vectors of a block and head are two planes, one after the other, head_dim a multiple of 32:
//
//   int8  quants[KV_BLOCK_TOKENS][head_dim]       round(x / scale), ties to even
//   f16   scales[KV_BLOCK_TOKENS][head_dim / 32]
#pragma once

#include "dot.h"
#include "quantize.h"
#include "slot.h"

namespace forge {

struct KvQ8 {
  uint8_t byte;
};
constexpr int KV_Q8_GROUP = Q8_BLOCK;

DEVICE size_t kv_q8_block_bytes(int head_dim) {
  return static_cast<size_t>(KV_BLOCK_TOKENS) * (head_dim + head_dim / KV_Q8_GROUP * 2);
}
// The block that holds a position of one head.
DEVICE size_t kv_q8_offset(const int32_t* block_table, int position, int kv_heads, int kv_head, int head_dim) {
  const size_t block = block_table[position / KV_BLOCK_TOKENS];
  return (block * kv_heads + kv_head) * kv_q8_block_bytes(head_dim);
}
template <int HEAD_DIM>
DEVICE const KvQ8* kv_q8_block(const KvQ8* cache, const int32_t* block_table, int position, int kv_heads, int kv_head) {
  return cache + kv_q8_offset(block_table, position, kv_heads, kv_head, HEAD_DIM);
}

// Four neighbouring elements as they lie, and as f16: who has other work to do while they are on their way holds them
// so.
struct KvQ8Four {
  uint32_t quants;
  half_t scale;
};
// Elements element .. element + 3 of a block's vector `token`, a multiple of 4.
template <int HEAD_DIM>
DEVICE KvQ8Four fetch_kv_q8(const KvQ8* block, int token, int element) {
  const int group = token * (HEAD_DIM / KV_Q8_GROUP) + element / KV_Q8_GROUP;
  return {load_aligned<uint32_t>(block + token * HEAD_DIM + element),
          load_aligned<half_t>(block + KV_BLOCK_TOKENS * HEAD_DIM + 2 * group)};
}
DEVICE Words2 unpack(const KvQ8Four& four) {
  const float scale = to_float(four.scale);
  half_t values[4];
  UNROLL
  for (int i = 0; i < 4; i++) {
    values[i] = to_half(static_cast<float>(static_cast<int8_t>(four.quants >> (8 * i))) * scale);
  }
  Words2 words;
  __builtin_memcpy(&words, values, sizeof(words));
  return words;
}

// A vector of a block, for attention that is computed in f32: nothing of it is rounded to f16.
struct KvQ8Vector {
  const KvQ8* block;
  int token;
};
DEVICE const int8_t* quants_of(const KvQ8Vector& vector, int head_dim) {
  return reinterpret_cast<const int8_t*>(vector.block) + vector.token * head_dim;
}
DEVICE const half_t* scales_of(const KvQ8Vector& vector, int head_dim) {
  const int group = vector.token * (head_dim / KV_Q8_GROUP);
  return reinterpret_cast<const half_t*>(vector.block + KV_BLOCK_TOKENS * head_dim) + group;
}

// dot and accumulate of dot.h.
#if WAVE == 1
DEVICE float dot(const KvQ8Vector& w, const float* x, int n) {
  const int8_t* quants = quants_of(w, n);
  const half_t* scales = scales_of(w, n);
  Vector sum = vector_zero();
  for (int group = 0; group < n / KV_Q8_GROUP; group++) {
    Vector products = vector_zero();
    for (int i = group * KV_Q8_GROUP; i < (group + 1) * KV_Q8_GROUP; i += SIMD_WIDTH) {
      products = multiply_add(load_vector(quants + i), load_vector(x + i), products);
    }
    sum = multiply_add(products, broadcast(to_float(scales[group])), sum);
  }
  return horizontal_sum(sum);
}
template <int N>
DEVICE void accumulate(float* values, const KvQ8Vector& v, float weight) {
  const int8_t* quants = quants_of(v, N);
  const half_t* scales = scales_of(v, N);
  for (int i = 0; i < N; i += SIMD_WIDTH) {
    const Vector scaled = broadcast(weight * to_float(scales[i / KV_Q8_GROUP]));
    store_vector(values + i, multiply_add(load_vector(quants + i), scaled, load_vector(values + i)));
  }
}
#else
DEVICE float dot(const KvQ8Vector& w, const float* x, int n) {
  const int8_t* quants = quants_of(w, n);
  const half_t* scales = scales_of(w, n);
  float sum = 0.0f;
  for (int i = lane_id(); i < n; i += WAVE) {
    sum = multiply_add(static_cast<float>(quants[i]) * to_float(scales[i / KV_Q8_GROUP]), x[i], sum);
  }
  return sum;
}
template <int N>
DEVICE void accumulate(float* values, const KvQ8Vector& v, float weight) {
  const int8_t* quants = quants_of(v, N);
  const half_t* scales = scales_of(v, N);
  UNROLL
  for (int e = 0; e < lane_elements(N); e++) {
    const int i = e * WAVE + lane_id();
    if (i >= N) continue;
    values[e] = multiply_add(weight * to_float(scales[i / KV_Q8_GROUP]), static_cast<float>(quants[i]), values[e]);
  }
}
#endif

// Stores a vector as token `token` of a block: all threads of a block of threads together. `vector` lies at 16 bytes.
DEVICE void store_kv_q8(KvQ8* block, int token, const float* vector, int head_dim) {
  const int groups = head_dim / KV_Q8_GROUP, lane = thread_id() % Q8_LANES;
  for (int at = 0; at < groups; at += BLOCK / Q8_LANES) {
    const int mine = at + thread_id() / Q8_LANES, group = min_of(mine, groups - 1);
    float values[Q8_HELD];
    load_held(values, vector + group * KV_Q8_GROUP + lane * Q8_HELD);
    const half_t scale = to_half(largest_of_block(values) / 127.0f);
    // An infinity or NaN stays in the scale.
    const float step = to_float(scale), inverse = step > 0.0f && step < 65536.0f ? 1.0f / step : 0.0f;
    if (mine >= groups) continue;
    auto* quants = reinterpret_cast<int8_t*>(block) + token * head_dim + group * KV_Q8_GROUP + lane * Q8_HELD;
    for (int i = 0; i < Q8_HELD; i++) {
      // The scale may have been rounded down, and far down when it is denormal.
      const float quant = max_of(-127.0f, min_of(127.0f, __builtin_rintf(values[i] * inverse)));
      quants[i] = static_cast<int8_t>(inverse > 0.0f ? quant : 0.0f);
    }
    if (lane == 0) store_aligned(block + KV_BLOCK_TOKENS * head_dim + 2 * (token * groups + group), scale);
  }
}

}  // namespace forge
