// attention_encoder: out = softmax(scale * q kᵀ - slope * |distance|) v over all positions of the row's sequence, or
// those at most `reach` away
//
// Attention of an encoder: a sequence is in the step as a whole, at consecutive rows from its position 0 on, so that
// its keys and values are in the step's own qkv and nothing is cached. The slopes are those of ALiBi, Press et al.
// (2022); 0 leaves scores as they are.
#include "forge/attention.h"

namespace {
using namespace forge;

// Keys or values that a wave adds at a time.
constexpr int CHUNK = KV_BLOCK_TOKENS;

// Adds `count` rows, at most CHUNK, `stride` elements apart, of which the first is `distance` behind the query: all
// lanes of a wave together.
template <int HEAD_DIM, int E>
DEVICE void add_rows(Partial<E>& p, const float* q, const float* k, const float* v, size_t stride, int count,
                     float scale, float slope, int distance) {
  float weight[CHUNK];
  float largest = p.largest;
  for (int j = 0; j < count; j++) {
    const int away = distance + j;
    const float bias = -slope * static_cast<float>(away < 0 ? -away : away);
    weight[j] = multiply_add(wave_sum(dot(k + j * stride, q, HEAD_DIM)), scale, bias);
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
    accumulate<HEAD_DIM>(p.values, v + j * stride, w);
  }
}

// Grid: x = heads, y = tokens. The waves take chunks of positions in turn.
template <int HEAD_DIM>
DEVICE void attention_encoder(Dim3 block, const float* __restrict qkv, float* __restrict out,
                              const int32_t* __restrict row_position, const int32_t* __restrict row_end,
                              const float* __restrict slopes, int heads, int kv_heads, int reach, float scale) {
  const int head = block.x, row = block.y, position = row_position[row];
  const size_t stride = static_cast<size_t>(heads + 2 * kv_heads) * HEAD_DIM;
  const int start = row - position, length = row_end[row] - start;
  const int first = reach == 0 ? 0 : max_of(0, position - reach);
  const int end = reach == 0 ? length : min_of(length, position + reach + 1);
  const float* q = qkv + row * stride + static_cast<size_t>(head) * HEAD_DIM;
  const float* k = qkv + start * stride + static_cast<size_t>(heads + head / (heads / kv_heads)) * HEAD_DIM;
  const float* v = k + static_cast<size_t>(kv_heads) * HEAD_DIM;

  Partial<lane_elements(HEAD_DIM)> total;
  clear(total);
  // Chunks begin at multiples of their size, so that their order does not depend on where a window begins.
  for (int chunk = first / CHUNK * CHUNK + wave_id() * CHUNK; chunk < end; chunk += WAVES * CHUNK) {
    const int from = max_of(chunk, first), count = min_of(chunk + CHUNK, end) - from;
    if (count <= 0) continue;
    add_rows<HEAD_DIM>(total, q, k + from * stride, v + from * stride, stride, count, scale, slopes[head],
                       from - position);
  }
  combine_waves(total);
  if (wave_id() == 0) write_result<HEAD_DIM>(total, out + (static_cast<size_t>(row) * heads + head) * HEAD_DIM);
}
}  // namespace

#define ATTENTION_ENCODER(head_dim)                                                                                   \
  KERNEL(attention_encoder_d##head_dim,                                                                               \
         const float* __restrict qkv,            /* [tokens, heads + 2 * kv_heads, head_dim], q and k rotated */      \
         float* __restrict out,                  /* [tokens, heads, head_dim] */                                      \
         const int32_t* __restrict row_position, /* [tokens] */                                                       \
         const int32_t* __restrict row_end,      /* [tokens], the row behind the last one of its sequence */          \
         const float* __restrict slopes,         /* [heads] */                                                        \
         int heads, int kv_heads, int reach, float scale) {                                                           \
    attention_encoder<head_dim>(BLOCK_INDEX, qkv, out, row_position, row_end, slopes, heads, kv_heads, reach, scale); \
  }

FORGE_HEAD_DIMS(ATTENTION_ENCODER)
