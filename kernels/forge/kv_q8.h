// A KV cache in q8_0: 32 neighbouring elements of a head's vector are int8 with one f16 scale, largest / 127 rounded.
// The KV_BLOCK_TOKENS vectors of a block and head are two planes, one after the other, head_dim a multiple of 32:
//
//   int8  quants[KV_BLOCK_TOKENS][head_dim]       round(x / scale), ties to even
//   f16   scales[KV_BLOCK_TOKENS][head_dim / 32]
#pragma once

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
