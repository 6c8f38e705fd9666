// Folding what attention_split left of each row, split by split, in order.
//
// A few splits are folded by a thread an element. Those of a long context are brought to LDS by all threads of a block,
// and several blocks share a head's elements out. Either way each element is folded in the same order.
#pragma once

#include "attention.h"

namespace forge {

// Rows of f32. What else attention may be written as says so by a store_attended of its own.
struct AttendedRows {
  float* out;
};
DEVICE void store_attended(const AttendedRows& rows, int row, int columns, int element, float value) {
  rows.out[static_cast<size_t>(row) * columns + element] = value;
}

// Elements that a block folds at a time, and splits that it brings to LDS for them.
constexpr int FOLD_WIDTH = BLOCK < 32 ? BLOCK : 32, FOLD_BATCH = 128;
// Splits whose values a thread asks for before it folds them.
constexpr int FOLD_ASKED = 8;

template <class Out>
DEVICE void fold_few(const float* parts, const Out& out, int row, int first_head, int heads, int head_dim, int splits,
                     int used) {
  const int last_head = min_of(first_head + COMBINE_HEADS, heads);
  for (int i = thread_id(); i < (last_head - first_head) * head_dim; i += BLOCK) {
    const size_t place = static_cast<size_t>(row) * heads + first_head + i / head_dim;
    const int e = i % head_dim;
    const float* first = parts + place * splits * (head_dim + 2);
    Partial<1> total;
    clear(total);
    for (int s = 0; s < used; s += FOLD_ASKED) {
      Partial<1> next[FOLD_ASKED];
      UNROLL
      for (int a = 0; a < FOLD_ASKED; a++) {
        const float* part = first + static_cast<size_t>(min_of(s + a, used - 1)) * (head_dim + 2);
        next[a] = Partial<1>{part[0], part[1], {part[2 + e]}};
      }
      UNROLL
      for (int a = 0; a < FOLD_ASKED; a++) {
        if (s + a < used) fold(total, next[a]);
      }
    }
    store_attended(out, row, heads * head_dim, (first_head + i / head_dim) * head_dim + e,
                   total.values[0] * inverse_of(total.sum));
  }
}

// The elements element .. element + FOLD_WIDTH - 1 of a head: all threads of a block together.
template <class Out>
DEVICE void fold_shared(const float* first, const Out& out, int row, int columns, int head, int element, int head_dim,
                        int used) {
  SHARED(float, values, (FOLD_BATCH * FOLD_WIDTH));
  SHARED(float, largest, FOLD_BATCH);
  SHARED(float, sums, FOLD_BATCH);
  SHARED(float, largest_yet, FOLD_BATCH);
  SHARED(float, total_factors, FOLD_BATCH);
  SHARED(float, next_factors, FOLD_BATCH);
  const int width = min_of(FOLD_WIDTH, head_dim - element), e = thread_id();
  float most = LOWEST, sum = 0.0f, total = 0.0f;
  for (int s = 0; s < used; s += FOLD_BATCH) {
    const int count = min_of(FOLD_BATCH, used - s);
    UNROLL
    for (int i = thread_id(); i < FOLD_BATCH * FOLD_WIDTH; i += BLOCK) {
      const float* part = first + static_cast<size_t>(s + min_of(i / FOLD_WIDTH, count - 1)) * (head_dim + 2);
      values[i] = part[2 + element + min_of(i % FOLD_WIDTH, width - 1)];
    }
    for (int t = thread_id(); t < count; t += BLOCK) {
      const float* part = first + static_cast<size_t>(s + t) * (head_dim + 2);
      largest[t] = part[0];
      sums[t] = part[1];
    }
    block_sync();
    // The largest of all before a split is what folding them in order would have left.
    for (int t = thread_id(); t < count; t += BLOCK) {
      float before = most;
      for (int u = 0; u < t; u++) before = larger_of(before, largest[u]);
      const float next = largest[t], now = larger_of(before, next);
      largest_yet[t] = now;
      total_factors[t] = exp_of(before - now);
      next_factors[t] = exp_of(next - now);
    }
    block_sync();
    most = largest_yet[count - 1];
    if (e < width) {
      for (int t = 0; t < count; t++) {
        total = multiply_add(total, total_factors[t], values[t * FOLD_WIDTH + e] * next_factors[t]);
        sum = multiply_add(sum, total_factors[t], sums[t] * next_factors[t]);
      }
    }
    block_sync();
  }
  if (e < width) store_attended(out, row, columns, head * head_dim + element + e, total * inverse_of(sum));
}

// Block x: COMBINE_HEADS of the heads; y: the row; z: of the blocks that share those heads.
template <class Out>
DEVICE void attention_combine(Dim3 block, const float* parts, const Out& out, const int32_t* row_position, int heads,
                              int head_dim, int splits) {
  const int row = block.y, used = row_position[row] / SPLIT + 1, first_head = block.x * COMBINE_HEADS;
  // Blocks that share the heads.
  const int blocks = (used + COMBINE_SPLITS - 1) / COMBINE_SPLITS;
  if (block.z >= blocks) return;
  if (blocks == 1) {
    fold_few(parts, out, row, first_head, heads, head_dim, splits, used);
    return;
  }
  const int strips = (head_dim + FOLD_WIDTH - 1) / FOLD_WIDTH;
  for (int i = block.z; i < strips * min_of(COMBINE_HEADS, heads - first_head); i += blocks) {
    const size_t place = static_cast<size_t>(row) * heads + first_head + i / strips;
    fold_shared(parts + place * splits * (head_dim + 2), out, row, heads * head_dim, first_head + i / strips,
                i % strips * FOLD_WIDTH, head_dim, used);
  }
}

}  // namespace forge
