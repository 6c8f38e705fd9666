// Attention written out, with scores in memory: slow, plain, and what the fused kernels must equal.
#pragma once

#include "contract.h"
#include "dot.h"
#include "reduce.h"

namespace forge {

// Scores of one row and head over `columns` keys; key(c) is where column c's vector lies.
template <class Key>
DEVICE void score_row(const float* q, float* scores, int columns, int head_dim, Key key) {
  for (int c = wave_id(); c < columns; c += WAVES) {
    const float sum = wave_sum(dot(key(c), q, head_dim));
    if (lane_id() == 0) scores[c] = sum;
  }
}

// One block a row.
template <class T>
DEVICE void scale_row(int row, T* __restrict x, int columns, float factor) {
  T* target = x + static_cast<size_t>(row) * columns;
  SIMD
  for (int i = thread_id(); i < columns; i += BLOCK) store(target + i, to_float(target[i]) * factor);
}

// Grid: x = rows, y = ceil(columns / SOFTCAP_PART): logits are long rows.
DEVICE void softcap_part(Dim3 block, float* __restrict x, int columns, float cap) {
  float* target = x + static_cast<size_t>(block.x) * columns;
  const int first = block.y * SOFTCAP_PART, end = min_of(columns, first + SOFTCAP_PART);
  SIMD
  for (int i = first + thread_id(); i < end; i += BLOCK) target[i] = softcapped(target[i], cap);
}

// Grid: x = heads, y = rows. window: a row's position and those before it that are not masked, 0 for all.
template <class T>
DEVICE void mask_row(Dim3 block, T* __restrict scores, const int32_t* __restrict row_position, int heads, int columns,
                     int window, float value) {
  T* row = scores + (static_cast<size_t>(block.y) * heads + block.x) * columns;
  const int end = row_position[block.y] + 1;
  for (int c = end + thread_id(); c < columns; c += BLOCK) store(row + c, value);
  if (window == 0) return;
  for (int c = thread_id(); c < min_of(end - window, columns); c += BLOCK) store(row + c, value);
}

// One block a row. y may be x: a thread reads and writes its own elements. A row of nothing but -inf, masked from end
// to end, gives 0.
template <class T>
DEVICE void softmax_row(int row, const T* x, T* y, int columns) {
  const T* in = x + static_cast<size_t>(row) * columns;
  T* out = y + static_cast<size_t>(row) * columns;

  float largest = LOWEST;
  SIMD_MAX(largest)
  for (int i = thread_id(); i < columns; i += BLOCK) largest = max_of(largest, to_float(in[i]));
  largest = block_max(largest);

  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < columns; i += BLOCK) sum += exp_of(to_float(in[i]) - largest);
  sum = block_sum(sum);
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;

  SIMD
  for (int i = thread_id(); i < columns; i += BLOCK) store(out + i, exp_of(to_float(in[i]) - largest) * inverse);
}

// One row and head; value(c) is where column c's vector lies. A thread owns elements of the head, and adds the columns
// in order.
template <class Value>
DEVICE void weigh_row(const float* weights, float* out, int columns, int head_dim, Value value) {
  for (int i = thread_id(); i < head_dim; i += BLOCK) {
    float sum = 0.0f;
    for (int c = 0; c < columns; c++) sum += weights[c] * to_float(value(c)[i]);
    out[i] = sum;
  }
}

}  // namespace forge
