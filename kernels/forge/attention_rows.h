// Attention of neighbouring rows of one slot on a CPU: keys and values of a KV block are converted once for all queries
// of a KV head, and a vector holds the scores of several tokens. Each number is computed in the order of attention.h
// and dot.h, so that a row has the bits it has by itself.
#pragma once

#include "attention.h"

namespace forge {

// Queries of a tile: of each of its rows, the heads that share a KV head.
template <int HEAD_DIM>
struct TileQueries {
  const float* __restrict qkv;
  float* __restrict out;
  int heads, kv_heads;
  int row = 0, position = 0, head = 0, group = 0;  // the first query's, and heads of a row
};
template <int HEAD_DIM>
DEVICE int position_of(const TileQueries<HEAD_DIM>& tile, int query) {
  return tile.position + query / tile.group;
}
template <int HEAD_DIM>
DEVICE int head_of(const TileQueries<HEAD_DIM>& tile, int query) {
  return tile.head + query % tile.group;
}
template <int HEAD_DIM>
DEVICE const float* query_of(const TileQueries<HEAD_DIM>& tile, int query) {
  const size_t row = tile.row + query / tile.group;
  return tile.qkv + (row * (tile.heads + 2 * tile.kv_heads) + head_of(tile, query)) * HEAD_DIM;
}
template <int HEAD_DIM>
DEVICE float* result_of(const TileQueries<HEAD_DIM>& tile, int query) {
  const size_t row = tile.row + query / tile.group;
  return tile.out + (row * tile.heads + head_of(tile, query)) * HEAD_DIM;
}

// Queries that share a converted block: their results stay in the first-level cache.
constexpr int tile_queries(int head_dim) { return max_of(16, min_of(32, 4096 / head_dim)); }

// Keys or values of a KV block of one head, or of as many rows.
template <int HEAD_DIM>
struct FloatBlock {
  alignas(64) float tokens[KV_BLOCK_TOKENS][HEAD_DIM];
};
// The same in q8_0, its quants as floats.
template <int HEAD_DIM>
struct QuantBlock : FloatBlock<HEAD_DIM> {
  alignas(64) float scales[HEAD_DIM / KV_Q8_GROUP][KV_BLOCK_TOKENS];
};
template <int HEAD_DIM, class T>
struct CachedBlock {
  using Type = FloatBlock<HEAD_DIM>;
};
template <int HEAD_DIM>
struct CachedBlock<HEAD_DIM, KvQ8> {
  using Type = QuantBlock<HEAD_DIM>;
};

// Converts all tokens of a block: behind the last one that was stored they are anything.
template <int HEAD_DIM, class T>
DEVICE void load_block(FloatBlock<HEAD_DIM>& to, const T* block) {
  for (int i = 0; i < KV_BLOCK_TOKENS * HEAD_DIM; i += SIMD_WIDTH) {
    store_vector(to.tokens[0] + i, load_vector(block + i));
  }
}
template <int HEAD_DIM>
DEVICE void load_block(QuantBlock<HEAD_DIM>& to, KvQ8Vector block) {
  load_block(static_cast<FloatBlock<HEAD_DIM>&>(to), quants_of(block, HEAD_DIM));
  const half_t* scales = scales_of(block, HEAD_DIM);
  for (int token = 0; token < KV_BLOCK_TOKENS; token++) {
    for (int group = 0; group < HEAD_DIM / KV_Q8_GROUP; group++) to.scales[group][token] = to_float(*scales++);
  }
}

// The same of `count` rows that lie `stride` apart.
template <int HEAD_DIM>
DEVICE void load_rows(FloatBlock<HEAD_DIM>& to, const float* rows, size_t stride, int count) {
  for (int token = 0; token < count; token++) {
    std::memcpy(to.tokens[token], rows + token * stride, sizeof(to.tokens[token]));
  }
}

// sums[i] = the sum of dot's four vectors, of the key of a token and each of Q queries
template <int Q, int HEAD_DIM>
DEVICE void lane_sums(Vector* sums, const FloatBlock<HEAD_DIM>& keys, int token, const float* const* q) {
  const float* key = keys.tokens[token];
  constexpr int WHOLE = HEAD_DIM / SIMD_WIDTH, FOURS = WHOLE / 4 * 4;
  Vector parts[4][Q];
  for (int c = 0; c < WHOLE; c++) {
    const Vector chunk = load_vector(key + c * SIMD_WIDTH);
    const int p = c < FOURS ? c % 4 : 0;
    for (int i = 0; i < Q; i++) {
      const Vector query = load_vector(q[i] + c * SIMD_WIDTH);
      parts[p][i] = multiply_add(chunk, query, c < min_of(4, max_of(1, FOURS)) ? vector_zero() : parts[p][i]);
    }
  }
  for (int i = 0; i < Q; i++) {
    if constexpr (WHOLE == 0)
      sums[i] = vector_zero();
    else if constexpr (FOURS == 0)
      sums[i] = parts[0][i];
    else
      sums[i] = add(add(parts[0][i], parts[1][i]), add(parts[2][i], parts[3][i]));
  }
}

// The same of q8_0, whose dot has one vector.
template <int Q, int HEAD_DIM>
DEVICE void lane_sums(Vector* sums, const QuantBlock<HEAD_DIM>& keys, int token, const float* const* q) {
  for (int i = 0; i < Q; i++) sums[i] = vector_zero();
  for (int group = 0; group < HEAD_DIM / KV_Q8_GROUP; group++) {
    Vector products[Q];
    for (int i = 0; i < Q; i++) products[i] = vector_zero();
    for (int at = group * KV_Q8_GROUP; at < (group + 1) * KV_Q8_GROUP; at += SIMD_WIDTH) {
      const Vector chunk = load_vector(keys.tokens[token] + at);
      for (int i = 0; i < Q; i++) products[i] = multiply_add(chunk, load_vector(q[i] + at), products[i]);
    }
    const Vector scale = broadcast(keys.scales[group][token]);
    for (int i = 0; i < Q; i++) sums[i] = multiply_add(products[i], scale, sums[i]);
  }
}

// One step of horizontal_sum of several vectors at once: adds lanes l and l + STRIDE of what is left of each in x and
// y, which lie side by side in the result.
template <int STRIDE>
DEVICE Vector halved(Vector x, Vector y) {
#if defined(__AVX512F__)
  // GCC 12 warns inside its own shuffles without a mask.
  constexpr __mmask16 ALL = 0xffff;
  if constexpr (STRIDE == 8)
    return add(_mm512_maskz_shuffle_f32x4(ALL, x, y, 0x44), _mm512_maskz_shuffle_f32x4(ALL, x, y, 0xee));
  else if constexpr (STRIDE == 4)
    return add(_mm512_maskz_shuffle_f32x4(ALL, x, y, 0x88), _mm512_maskz_shuffle_f32x4(ALL, x, y, 0xdd));
  else if constexpr (STRIDE == 2)
    return add(_mm512_maskz_shuffle_ps(ALL, x, y, 0x44), _mm512_maskz_shuffle_ps(ALL, x, y, 0xee));
  else
    return add(_mm512_maskz_shuffle_ps(ALL, x, y, 0x88), _mm512_maskz_shuffle_ps(ALL, x, y, 0xdd));
#else
  if constexpr (STRIDE == 4)
    return add(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
  else if constexpr (STRIDE == 2)
    return add(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xee));
  else
    return add(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd));
#endif
}

// Horizontal sums, as far as STRIDE, of the keys `token`, and those `APART` and so on behind it, that fill a vector.
template <int Q, int STRIDE, class Block>
DEVICE void halved_sums(Vector* sums, const Block& keys, const float* const* q, int token) {
  if constexpr (STRIDE == SIMD_WIDTH) {
    lane_sums<Q>(sums, keys, token, q);
  } else {
    // In the last two steps neighbours come together, in those before what is four keys apart, so that keys end in
    // order.
    constexpr int APART = STRIDE == 1 ? 2 : STRIDE == 2 ? 1 : SIMD_WIDTH / 2 * 4 / STRIDE;
    Vector others[Q];
    halved_sums<Q, 2 * STRIDE>(sums, keys, q, token);
    halved_sums<Q, 2 * STRIDE>(others, keys, q, token + APART);
    for (int i = 0; i < Q; i++) sums[i] = halved<STRIDE>(sums[i], others[i]);
  }
}

// products[i][token] = dot(key of the token, q[i]). A call, because several copies of it take long to compile.
template <int HEAD_DIM, int Q, class Block>
__attribute__((noinline)) void key_products(float (*products)[KV_BLOCK_TOKENS], const Block& keys,
                                            const float* const* q) {
  for (int token = 0; token < KV_BLOCK_TOKENS; token += SIMD_WIDTH) {
    Vector sums[Q];
    halved_sums<Q, 1>(sums, keys, q, token);
    for (int i = 0; i < Q; i++) store_vector(products[i] + token, sums[i]);
  }
  for (int element = HEAD_DIM / SIMD_WIDTH * SIMD_WIDTH; element < HEAD_DIM; element++) {
    for (int i = 0; i < Q; i++) {
      for (int token = 0; token < KV_BLOCK_TOKENS; token++) {
        products[i][token] = multiply_add(keys.tokens[token][element], q[i][element], products[i][token]);
      }
    }
  }
}

// Tokens first .. end - 1 of a block.
struct TokenRange {
  int first, end;
};
DEVICE bool operator==(TokenRange a, TokenRange b) { return a.first == b.first && a.end == b.end; }

// COUNT vectors of elements, from `first` on, of values[i] = values[i] * corrections[i] + sum of weights[i][token] *
// value of the token
template <int COUNT, int Q, int HEAD_DIM>
DEVICE void add_columns(Partial<HEAD_DIM>* parts, const FloatBlock<HEAD_DIM>& values,
                        const float (*weights)[KV_BLOCK_TOKENS], const float* corrections, TokenRange range,
                        int first) {
  Vector sums[Q][COUNT];
  for (int i = 0; i < Q; i++) {
    for (int c = 0; c < COUNT; c++) {
      sums[i][c] = multiply(load_vector(parts[i].values + first + c * SIMD_WIDTH), broadcast(corrections[i]));
    }
  }
  for (int token = range.first; token < range.end; token++) {
    for (int c = 0; c < COUNT; c++) {
      const Vector value = load_vector(values.tokens[token] + first + c * SIMD_WIDTH);
      for (int i = 0; i < Q; i++) sums[i][c] = multiply_add(value, broadcast(weights[i][token]), sums[i][c]);
    }
  }
  for (int i = 0; i < Q; i++) {
    for (int c = 0; c < COUNT; c++) store_vector(parts[i].values + first + c * SIMD_WIDTH, sums[i][c]);
  }
}

// The same of all elements.
template <int Q, int HEAD_DIM>
DEVICE void add_values(Partial<HEAD_DIM>* parts, const FloatBlock<HEAD_DIM>& values,
                       const float (*weights)[KV_BLOCK_TOKENS], const float* corrections, TokenRange range) {
  constexpr int WHOLE = HEAD_DIM / SIMD_WIDTH, HELD = min_of(WHOLE, max_of(1, SIMD_WIDTH / Q));
  int column = 0;
  if constexpr (WHOLE > 0) {
    for (; column + HELD <= WHOLE; column += HELD) {
      add_columns<HELD, Q>(parts, values, weights, corrections, range, column * SIMD_WIDTH);
    }
    for (; column < WHOLE; column++) {
      add_columns<1, Q>(parts, values, weights, corrections, range, column * SIMD_WIDTH);
    }
  }
  for (int element = WHOLE * SIMD_WIDTH; element < HEAD_DIM; element++) {
    for (int i = 0; i < Q; i++) {
      float sum = parts[i].values[element] * corrections[i];
      for (int token = range.first; token < range.end; token++) {
        sum = multiply_add(weights[i][token], values.tokens[token][element], sum);
      }
      parts[i].values[element] = sum;
    }
  }
}
template <int Q, int HEAD_DIM>
DEVICE void add_values(Partial<HEAD_DIM>* parts, const QuantBlock<HEAD_DIM>& values,
                       const float (*weights)[KV_BLOCK_TOKENS], const float* corrections, TokenRange range) {
  for (int group = 0; group < HEAD_DIM / KV_Q8_GROUP; group++) {
    alignas(64) float scaled[Q][KV_BLOCK_TOKENS];
    for (int i = 0; i < Q; i++) {
      SIMD
      for (int token = 0; token < KV_BLOCK_TOKENS; token++) {
        scaled[i][token] = weights[i][token] * values.scales[group][token];
      }
    }
    add_columns<KV_Q8_GROUP / SIMD_WIDTH, Q>(parts, values, scaled, corrections, range, group * KV_Q8_GROUP);
  }
}

// The weights of a block's tokens for Q queries that attend to the same of them, and the factors of what the queries
// have of earlier tokens: add_tokens up to its values. score(products, i) turns the products of query i into scores.
template <int HEAD_DIM, int Q, class Block, class Score>
DEVICE void weigh(float (*weights)[KV_BLOCK_TOKENS], float* corrections, Partial<HEAD_DIM>* parts, const Block& keys,
                  const float* const* q, TokenRange range, const Score& score) {
  if constexpr (Q == 1) {
    key_products<HEAD_DIM, 1>(weights, keys, q);
  } else {
    for (int i = 0; i < Q; i += 2) key_products<HEAD_DIM, 2>(weights + i, keys, q + i);
  }
  float sums[Q];
  for (int i = 0; i < Q; i++) score(weights[i], i);
  for (int i = 0; i < Q; i++) {
    const float* weight = weights[i];
    float largest = parts[i].largest;
    if (range.end - range.first == KV_BLOCK_TOKENS) {
      SIMD_MAX(largest)
      for (int token = 0; token < KV_BLOCK_TOKENS; token++) largest = larger_of(largest, weight[token]);
    } else {
      for (int token = range.first; token < range.end; token++) largest = larger_of(largest, weight[token]);
    }
    corrections[i] = parts[i].largest - largest;
    parts[i].largest = largest;
  }
  SIMD
  for (int i = 0; i < Q; i++) corrections[i] = exp_of(corrections[i]);
  for (int i = 0; i < Q; i++) {
    const float largest = parts[i].largest;
    float* weight = weights[i];
    SIMD
    for (int token = 0; token < KV_BLOCK_TOKENS; token++) weight[token] = exp_of(weight[token] - largest);
    sums[i] = parts[i].sum * corrections[i];
  }
  for (int token = range.first; token < range.end; token++) {
    for (int i = 0; i < Q; i++) sums[i] += weights[i][token];
  }
  for (int i = 0; i < Q; i++) parts[i].sum = sums[i];
}

// Calls take(i, range, integral constant) for the queries from i on, four, two or one, that attend to the same tokens
// of a block; not for those that attend to none.
template <class RangeOf, class Take>
DEVICE void for_alike(int count, const RangeOf& range_of, const Take& take) {
  for (int i = 0; i < count;) {
    const TokenRange range = range_of(i);
    int alike = 1;
    while (alike < 4 && i + alike < count && range_of(i + alike) == range) alike++;
    if (range.first >= range.end) {
      i += 1;
    } else if (alike == 4) {
      take(i, range, std::integral_constant<int, 4>());
      i += 4;
    } else if (alike > 1) {
      take(i, range, std::integral_constant<int, 2>());
      i += 2;
    } else {
      take(i, range, std::integral_constant<int, 1>());
      i += 1;
    }
  }
}

}  // namespace forge
