// Attention over some positions, and how the parts of a context are put together. Softmax is taken online (Milakov &
// Gimelshein 2018): a part keeps its largest score, and whatever joins it is scaled to that.
#pragma once

#include "dot.h"
#include "kv_q8.h"
#include "slot.h"

namespace forge {

// Contexts are split at absolute positions and the splits combined in order: a row's bits depend on its own context
// alone.
constexpr int SPLIT = ATTENTION_SPLIT;

// Partial result of attention over some positions: the largest score, the sum of e^(score - largest), and the sum of
// e^(score - largest) * v, of which each lane holds the elements lane, lane + WAVE, ...
template <int E>
struct Partial {
  float largest, sum, values[E];
};
template <int E>
DEVICE void clear(Partial<E>& p) {
  p.largest = LOWEST;
  p.sum = 0.0f;
  UNROLL
  for (int e = 0; e < E; e++) p.values[e] = 0.0f;
}

// Combines `next` into `total`. The fused multiplies are written out, so that every kernel that combines gets the same
// bits.
template <int E>
DEVICE void combine(Partial<E>& total, const Partial<E>& next) {
  const float largest = max_of(total.largest, next.largest);
  const float a = exp_of(total.largest - largest), b = exp_of(next.largest - largest);
  total.largest = largest;
  total.sum = multiply_add(total.sum, a, next.sum * b);
  UNROLL
  for (int e = 0; e < E; e++) total.values[e] = multiply_add(total.values[e], a, next.values[e] * b);
}

// 1 / sum of the weights; 0 for a row that may attend to nothing, whose result is then 0.
DEVICE float inverse_of(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

// Turns q · k into a score: times scale, and softcapped unless softcap is 0. A row attends to the last `window`
// positions up to its own, 0 for all.
struct Scoring {
  float scale, softcap;
  int window;
};
DEVICE int window_begin(int position, int window) { return window == 0 ? 0 : max_of(0, position + 1 - window); }
// The first split that a row attends to, and how many.
DEVICE int first_split(int position, int window) { return window_begin(position, window) / SPLIT; }
DEVICE int splits_attended(int position, int window) { return position / SPLIT - first_split(position, window) + 1; }
// softcapped of a score, whose quotients need not be rounded to nearest.
DEVICE float softcapped_score(float x, float cap) {
  return cap - quotient_of(2.0f * cap, 1.0f + exp_of(quotient_of(2.0f * x, cap)));
}
DEVICE float score_of(float product, Scoring scoring) {
  const float score = product * scoring.scale;
  return scoring.softcap == 0.0f ? score : softcapped_score(score, scoring.softcap);
}

// The vector of a head at a token of the KV block that holds it, and the one `count` tokens further in that block: a
// pointer, or what dot and accumulate take for one.
template <int HEAD_DIM, class T>
DEVICE const T* cached_vector(const T* cache, const int32_t* block_table, int token, int kv_heads, int kv_head) {
  return cache + kv_offset(block_table, token, kv_heads, kv_head, HEAD_DIM);
}
template <int HEAD_DIM>
DEVICE KvQ8Vector cached_vector(const KvQ8* cache, const int32_t* block_table, int token, int kv_heads, int kv_head) {
  return {kv_q8_block<HEAD_DIM>(cache, block_table, token, kv_heads, kv_head), token % KV_BLOCK_TOKENS};
}
template <int HEAD_DIM, class V>
DEVICE V further(V vector, int count) {
  return vector + count * HEAD_DIM;
}
template <int HEAD_DIM>
DEVICE KvQ8Vector further(KvQ8Vector vector, int count) {
  return {vector.block, vector.token + count};
}

// Adds `count` tokens, at most KV_BLOCK_TOKENS, whose keys and values follow each other: all lanes of a wave together.
template <int HEAD_DIM, int E, class Vectors>
DEVICE void add_tokens(Partial<E>& p, const float* q, Vectors k, Vectors v, int count, Scoring scoring) {
  float weight[KV_BLOCK_TOKENS];
  float largest = p.largest;
  for (int j = 0; j < count; j++) {
    weight[j] = score_of(wave_sum(dot(further<HEAD_DIM>(k, j), q, HEAD_DIM)), scoring);
    largest = max_of(largest, weight[j]);
  }
  const float correction = exp_of(p.largest - largest);
  p.largest = largest;
  p.sum *= correction;
  UNROLL
  for (int e = 0; e < E; e++) p.values[e] *= correction;
  for (int j = 0; j < count; j++) {
    const float w = exp_of(weight[j] - largest);
    p.sum += w;
    accumulate<HEAD_DIM>(p.values, further<HEAD_DIM>(v, j), w);
  }
}

// A head's part of the KV cache of one sequence.
template <class T>
struct PagedHead {
  const T *k_cache, *v_cache;  // [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; KvQ8: see kv_q8.h
  const int32_t* block_table;
  int kv_heads, kv_head;
};

// Combines what the waves of a block have of one query, in their order: every wave gets the whole.
template <int E>
DEVICE void combine_waves(Partial<E>& part) {
  if (WAVES == 1) return;

  SHARED(float, wave_largest, WAVES);
  SHARED(float, wave_sums, WAVES);
  SHARED(float, wave_values, (WAVES * E * WAVE));
  if (lane_id() == 0) {
    wave_largest[wave_id()] = part.largest;
    wave_sums[wave_id()] = part.sum;
  }
  UNROLL
  for (int e = 0; e < E; e++) wave_values[(wave_id() * E + e) * WAVE + lane_id()] = part.values[e];
  block_sync();
  clear(part);
  for (int w = 0; w < WAVES; w++) {
    Partial<E> other;
    other.largest = wave_largest[w];
    other.sum = wave_sums[w];
    UNROLL
    for (int e = 0; e < E; e++) other.values[e] = wave_values[(w * E + e) * WAVE + lane_id()];
    combine(part, other);
  }
  block_sync();
}

// Attention over the positions first .. end - 1 of the split that begins at `split`: all threads of a block together.
// The waves take KV blocks in turn and are then combined in order; every wave gets the whole.
template <int HEAD_DIM, class T>
DEVICE Partial<lane_elements(HEAD_DIM)> attend_split(const PagedHead<T>& cache, const float* q, int split, int first,
                                                     int end, Scoring scoring) {
  constexpr int E = lane_elements(HEAD_DIM);
  Partial<E> part;
  clear(part);
  for (int block = split + wave_id() * KV_BLOCK_TOKENS; block < end; block += WAVES * KV_BLOCK_TOKENS) {
    const int token = max_of(block, first), count = min_of(block + KV_BLOCK_TOKENS, end) - token;
    if (count <= 0) continue;
    const auto at = [&](const T* from) {
      return cached_vector<HEAD_DIM>(from, cache.block_table, token, cache.kv_heads, cache.kv_head);
    };
    add_tokens<HEAD_DIM>(part, q, at(cache.k_cache), at(cache.v_cache), count, scoring);
  }
  combine_waves(part);
  return part;
}

// Attention over all positions up to the row's own, or the last `window` of them: the splits in order, all threads of a
// block together.
template <int HEAD_DIM, class T>
DEVICE Partial<lane_elements(HEAD_DIM)> attend_context(const PagedHead<T>& cache, const float* q, int position,
                                                       Scoring scoring) {
  const int length = position + 1, begin = window_begin(position, scoring.window);
  Partial<lane_elements(HEAD_DIM)> total;
  clear(total);
  for (int split = begin / SPLIT * SPLIT; split < length; split += SPLIT) {
    const int first = max_of(split, begin), end = min_of(length, split + SPLIT);
    combine(total, attend_split<HEAD_DIM>(cache, q, split, first, end, scoring));
  }
  return total;
}

// Adds a key that is everywhere, whose value is zero: it takes its part of the weights. LOWEST is none.
template <int E>
DEVICE void add_sink(Partial<E>& total, float score) {
  Partial<E> sink;
  clear(sink);
  sink.largest = score;
  sink.sum = 1.0f;
  combine(total, sink);
}

// Writes one head's result, each lane its own elements.
template <int HEAD_DIM, int E>
DEVICE void write_result(const Partial<E>& p, float* out) {
  const float inverse = inverse_of(p.sum);
  UNROLL
  for (int e = 0; e < E; e++) {
    const int i = e * WAVE + lane_id();
    if (i < HEAD_DIM) out[i] = p.values[e] * inverse;
  }
}

}  // namespace forge
