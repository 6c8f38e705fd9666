// RMS normalization multiplies a row by 1 / sqrt(mean(x²) + eps), here `inv_rms`: Zhang & Sennrich (2019).
#pragma once

#include "contract.h"
#include "reduce.h"
#include "words.h"

namespace forge {

// 1 / sqrt(mean(x²) + eps) of a row, computed by all threads of a block together. The order of the sum depends only on
// `hidden`.
template <class T>
DEVICE float inv_rms(const T* x, int hidden, float eps) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) sum += to_float(x[i]) * to_float(x[i]);
  return rsqrt_of(block_sum(sum) / static_cast<float>(hidden) + eps);
}

// For f32 the sum of squares is a sum of parts, each the sum over NORM_PART elements. A launch that writes a row stores
// its parts for the next launch (matmul_summed.hip), which then knows the norm of a row that it has not read. All
// functions below add in this order: the squares of a part are reduced in a tree; each of PART_LANES lanes sums parts
// lane, lane + PART_LANES, … in ascending order; then the lanes are reduced in a tree. WAVE == 1 is the CPU, where one
// thread adds for all lanes in the same order.
constexpr int PART_LANES = 32;

// values[0] = the sum of COUNT values, reduced in a tree whose first level adds values COUNT / 2 apart.
template <int COUNT>
DEVICE float tree_sum(float (&values)[COUNT]) {
  UNROLL
  for (int half = COUNT / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) values[i] += values[i + half];
  }
  return values[0];
}

// The sum of the squares of value(i), i < NORM_PART, computed by all lanes of a wave together; lane i calls value(i).
template <class Value>
DEVICE float sum_of_squares(Value value) {
  if constexpr (WAVE == 1) {
    float squares[NORM_PART];
    for (int i = 0; i < NORM_PART; i++) {
      const float element = value(i);
      squares[i] = element * element;
    }
    return tree_sum(squares);
  } else {
    const float element = lane_id() < NORM_PART ? value(lane_id()) : 0.0f;
    float sum = element * element;
    UNROLL
    for (int offset = NORM_PART / 2; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
    return sum;
  }
}

// 1 / sqrt(mean(x²) + eps) of a row, from its partial sums of squares `parts`; all lanes of a wave get it.
template <class Parts>
DEVICE float inv_rms_of_parts(Parts parts, int hidden, float eps) {
  const int count = (hidden + NORM_PART - 1) / NORM_PART;
  float sum;
  if constexpr (WAVE == 1) {
    float sums[PART_LANES] = {};
    for (int p = 0; p < count; p++) sums[p % PART_LANES] += parts[p];
    sum = tree_sum(sums);
  } else {
    sum = 0.0f;
    for (int p = lane_id() % PART_LANES; p < count; p += PART_LANES) sum += parts[p];
    UNROLL
    for (int offset = PART_LANES / 2; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
  }
  return rsqrt_of(sum / static_cast<float>(hidden) + eps);
}

// A row of f32, the weight of its norm, and the partial sums of its squares, stored by the launch that wrote the row.
struct NormInput {
  const float *x, *weight, *parts;
  float eps;
};

#if WAVE > 1
// Stores the partial sum of squares to which the thread's four elements from i on belong. Four lanes hold the NORM_PART
// elements of a part, so all threads of a block must call it.
template <class Parts>
DEVICE void store_part(Parts parts, int i, int hidden, const Floats4& four) {
  float sums[4];
  UNROLL
  for (int j = 0; j < 4; j++) {
    const float element = i < hidden ? four.f[j] : 0.0f;
    sums[j] = element * element;
    sums[j] += shuffle_xor(sums[j], 2);
    sums[j] += shuffle_xor(sums[j], 1);
  }
  if (i < hidden && i % NORM_PART == 0) parts[i / NORM_PART] = tree_sum(sums);
}

// Elements of a row that a thread passes to store_part.
constexpr int HELD_OF_PART = 4;
template <class Parts>
DEVICE void store_part(Parts parts, int i, int hidden, const float (&held)[HELD_OF_PART]) {
  store_part(parts, i, hidden, Floats4{{held[0], held[1], held[2], held[3]}});
}

// For f32 rows that are aligned to 16 bytes.
DEVICE float inv_rms(const float* x, int hidden, float eps) {
  if (hidden % 4 != 0 || hidden > NORM_PARTS * NORM_PART) return inv_rms<float>(x, hidden, eps);
  SHARED(float, parts, NORM_PARTS);
  for (int from = 0; from < hidden; from += 4 * BLOCK) {
    const int i = from + 4 * thread_id();
    store_part(parts + 0, i, hidden, load_aligned<Floats4>(x + min_of(i, hidden - 4)));
  }
  block_sync();
  return inv_rms_of_parts(parts + 0, hidden, eps);
}
#else
constexpr int HELD_OF_PART = NORM_PART;
template <class Parts>
DEVICE void store_part(Parts parts, int i, int hidden, const float (&held)[HELD_OF_PART]) {
  if (i < hidden) parts[i / NORM_PART] = sum_of_squares([&](int k) { return held[k]; });
}

DEVICE float inv_rms(const float* x, int hidden, float eps) {
  if (hidden % 4 != 0 || hidden > NORM_PARTS * NORM_PART) return inv_rms<float>(x, hidden, eps);
  float sums[PART_LANES] = {};
  for (int first = 0; first < hidden; first += NORM_PART) {
    float squares[NORM_PART];
    SIMD
    for (int i = 0; i < NORM_PART; i++) {
      const float element = first + i < hidden ? x[first + i] : 0.0f;
      squares[i] = element * element;
    }
    sums[first / NORM_PART % PART_LANES] += tree_sum(squares);
  }
  return rsqrt_of(tree_sum(sums) / static_cast<float>(hidden) + eps);
}
#endif

// On GPUs: a thread's share of a row of f32 that the block holds in registers, in pieces of four elements.
template <int PIECES>
struct HeldRow {
  Floats4 pieces[PIECES];
};
// Index of this thread's first element of piece p.
DEVICE int held_at(int p) { return 4 * thread_id() + p * 4 * BLOCK; }

template <int PIECES>
DEVICE void load_held(HeldRow<PIECES>& held, const float* row, int hidden) {
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    if (held_at(p) < hidden) held.pieces[p] = load_aligned<Floats4>(row + held_at(p));
  }
}

// The same bits as inv_rms of the row; `parts` is shared memory.
template <int PIECES, class Parts>
DEVICE float inv_rms_of_held(const HeldRow<PIECES>& held, Parts parts, int hidden, float eps) {
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    if (p * 4 * BLOCK < hidden) store_part(parts, held_at(p), hidden, held.pieces[p]);
  }
  block_sync();
  return inv_rms_of_parts(parts, hidden, eps);
}

// Normalizes row `row` of x into y; one block per row. y may be x, since each thread writes only elements that it read.
template <class T>
DEVICE void normalize(int row, const T* x, const float* __restrict weight, T* y, int hidden, float eps) {
  const T* in = x + static_cast<size_t>(row) * hidden;
  T* out = y + static_cast<size_t>(row) * hidden;
  const float scale = inv_rms(in, hidden, eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) store(out + i, to_float(in[i]) * scale * weight[i]);
}

}  // namespace forge
