// Heads of one row that are rotated, and normalized before that, where they are attended to: rope_kv_append or
// norm_rope_kv_append, to the bit. Each block turns the query heads that it takes; those of the split that the row's
// position is in turn its key and store it with its value first.
#pragma once

#include "attention_tile_splits.h"
#include "head_norm.h"
#include "slot.h"

namespace forge {
struct Rotated {
  half_t *k_cache, *v_cache;
  const float *cosine, *sine;  // [max_position, rotary / 2]
  int rotary, adjacent;
};

// Eight elements of a head, the first of them element 8 p, rotated as rope.h does; `element(e)` is one before.
template <class ElementOf>
DEVICE Piece rotated_piece(const Rotated& row, int p, int position, ElementOf element) {
  const int half = row.rotary / 2;
  const size_t angles = static_cast<size_t>(position) * half;
  alignas(16) float values[PIECE];
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    const int e = p * PIECE + i, k = e < row.rotary ? e : 0;
    // The pair that the element is of, and which of the two it is; of what is not rotated, any.
    const int j = row.adjacent ? k / 2 : k < half ? k : k - half;
    const bool is_second = row.adjacent ? k % 2 == 1 : k >= half;
    const int first = row.adjacent ? 2 * j : j, second = row.adjacent ? first + 1 : j + half;
    const float x = element(e < row.rotary ? first : e), y = element(second);
    const float c = row.cosine[angles + j], s = row.sine[angles + j];
    const float rotated = is_second ? multiply_add(x, s, y * c) : multiply_add(x, c, -(y * s));
    values[i] = e < row.rotary ? rotated : x;
  }
  return to_piece(values);
}
template <int HEAD_DIM>
DEVICE Piece query_piece(const Rotated& row, const SplitHeads& own, int query, int p) {
  const float* head = own.queries + query * HEAD_DIM;
  return rotated_piece(row, p, own.position, [&](int e) { return head[e]; });
}
// Stores the row's key and value, in the split that it is in.
template <int HEAD_DIM, class KeyOf>
DEVICE void append(const Rotated& row, const SplitHeads& own, const TileCache<half_t>& cache, KeyOf key) {
  if (own.position / SPLIT != own.split) return;
  constexpr int PIECES = HEAD_DIM / PIECE;
  const size_t place = kv_offset(cache.block_table, own.position, cache.kv_heads, cache.kv_head, HEAD_DIM);
  for (int i = thread_id(); i < 2 * PIECES; i += BLOCK) {
    const int p = i % PIECES;
    const bool is_key = i < PIECES;
    const Piece piece = is_key ? rotated_piece(row, p, own.position, key) : to_piece(own.value + p * PIECE);
    // One store for both: two are taken apart into what they share, and pieces are stored in pieces.
    store_aligned((is_key ? row.k_cache : row.v_cache) + place + p * PIECE, piece);
  }
  block_sync();
}
template <int HEAD_DIM>
DEVICE void begin_row(const Rotated& row, const SplitHeads& own, const TileCache<half_t>& cache) {
  append<HEAD_DIM>(row, own, cache, [&](int e) { return own.key[e]; });
}

// The same of heads that are normalized first; a scale for each query of the block, then the key's.
template <class Scales>
struct Normed {
  Rotated rotated;
  const float *query_weight, *key_weight;
  float eps;
  Scales scales;
};
template <int HEAD_DIM, class Scales>
DEVICE Piece query_piece(const Normed<Scales>& row, const SplitHeads& own, int query, int p) {
  const float *head = own.queries + query * HEAD_DIM, scale = row.scales[query];
  return rotated_piece(row.rotated, p, own.position, [&](int e) { return head[e] * scale * row.query_weight[e]; });
}
template <int HEAD_DIM, class Scales>
DEVICE void begin_row(const Normed<Scales>& row, const SplitHeads& own, const TileCache<half_t>& cache) {
  for (int i = wave_id(); i <= own.count; i += WAVES) {
    const float* head = i < own.count ? own.queries + i * HEAD_DIM : own.key;
    const float scale = head_scale(head, HEAD_DIM, row.eps);
    if (lane_id() == 0) row.scales[i] = scale;
  }
  block_sync();
  const float scale = row.scales[own.count];
  append<HEAD_DIM>(row.rotated, own, cache, [&](int e) { return own.key[e] * scale * row.key_weight[e]; });
}
template <class Scales>
DEVICE Normed<Scales> normed(const Rotated& row, const float* query_weight, const float* key_weight, float eps,
                             Scales scales) {
  return {row, query_weight, key_weight, eps, scales};
}
}  // namespace forge
