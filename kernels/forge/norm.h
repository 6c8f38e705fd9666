// The factor by which root mean square normalization multiplies a row: Zhang & Sennrich (2019).
#pragma once

#include "contract.h"
#include "reduce.h"
#include "words.h"

namespace forge {

// 1 / sqrt(mean(x²) + eps) of a row: all threads of a block together. The order of the sum depends on `hidden` alone.
template <class T>
DEVICE float rms_scale(const T* x, int hidden, float eps) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = thread_id(); i < hidden; i += BLOCK) sum += to_float(x[i]) * to_float(x[i]);
  return rsqrt_of(block_sum(sum) / static_cast<float>(hidden) + eps);
}

// For f32 the sum of squares is a sum of parts of NORM_PART elements each: a launch that writes a row leaves them for
// the next one (matmul_summed.hip), which then knows the norm of a row that it has not read. Both add in this order:
// the elements of a part by halves; of the parts a lane of 32 its own, rising; then the lanes by halves.
constexpr int PART_LANES = 32;

// values[0] = the sum of COUNT values, by halves.
template <int COUNT>
DEVICE float sum_by_halves(float (&values)[COUNT]) {
  UNROLL
  for (int half = COUNT / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) values[i] += values[i + half];
  }
  return values[0];
}

// The sum of the squares of value(i), i < NORM_PART: all lanes of a wave together, each of which is asked for one.
template <class Value>
DEVICE float sum_of_squares(Value value) {
  if constexpr (WAVE == 1) {
    float squares[NORM_PART];
    for (int i = 0; i < NORM_PART; i++) {
      const float element = value(i);
      squares[i] = element * element;
    }
    return sum_by_halves(squares);
  } else {
    const float element = lane_id() < NORM_PART ? value(lane_id()) : 0.0f;
    float sum = element * element;
    UNROLL
    for (int offset = NORM_PART / 2; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
    return sum;
  }
}
// 1 / sqrt(mean(x²) + eps) of a row whose parts these are, for all lanes of a wave.
template <class Parts>
DEVICE float rms_of_parts(Parts parts, int hidden, float eps) {
  const int count = (hidden + NORM_PART - 1) / NORM_PART;
  float sum;
  if constexpr (WAVE == 1) {
    float sums[PART_LANES] = {};
    for (int p = 0; p < count; p++) sums[p % PART_LANES] += parts[p];
    sum = sum_by_halves(sums);
  } else {
    sum = 0.0f;
    for (int p = lane_id() % PART_LANES; p < count; p += PART_LANES) sum += parts[p];
    UNROLL
    for (int offset = PART_LANES / 2; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
  }
  return rsqrt_of(sum / static_cast<float>(hidden) + eps);
}

// A row of f32, the weight of its norm, and the sums of its squares that whoever wrote it left in `parts`.
struct NormInput {
  const float *x, *weight, *parts;
  float eps;
};

#if WAVE > 1
// Leaves the part of the four elements from i on, which a thread holds: four lanes hold one together, and all threads
// of a block take part.
template <class Parts>
DEVICE void leave_part(Parts parts, int i, int hidden, const Floats4& four) {
  float sums[4];
  UNROLL
  for (int j = 0; j < 4; j++) {
    const float element = i < hidden ? four.f[j] : 0.0f;
    sums[j] = element * element;
    sums[j] += shuffle_xor(sums[j], 2);
    sums[j] += shuffle_xor(sums[j], 1);
  }
  if (i < hidden && i % NORM_PART == 0) parts[i / NORM_PART] = sum_by_halves(sums);
}

// Elements of a row that a thread holds where it leaves parts.
constexpr int HELD_OF_PART = 4;
template <class Parts>
DEVICE void leave_part(Parts parts, int i, int hidden, const float (&held)[HELD_OF_PART]) {
  leave_part(parts, i, hidden, Floats4{{held[0], held[1], held[2], held[3]}});
}

// For f32 rows that lie at 16 bytes.
DEVICE float rms_scale(const float* x, int hidden, float eps) {
  if (hidden % 4 != 0 || hidden > NORM_PARTS * NORM_PART) return rms_scale<float>(x, hidden, eps);
  SHARED(float, parts, NORM_PARTS);
  for (int from = 0; from < hidden; from += 4 * BLOCK) {
    const int i = from + 4 * thread_id();
    leave_part(parts + 0, i, hidden, load_aligned<Floats4>(x + min_of(i, hidden - 4)));
  }
  block_sync();
  return rms_of_parts(parts + 0, hidden, eps);
}
#else
constexpr int HELD_OF_PART = NORM_PART;
template <class Parts>
DEVICE void leave_part(Parts parts, int i, int hidden, const float (&held)[HELD_OF_PART]) {
  if (i < hidden) parts[i / NORM_PART] = sum_of_squares([&](int k) { return held[k]; });
}

DEVICE float rms_scale(const float* x, int hidden, float eps) {
  if (hidden % 4 != 0 || hidden > NORM_PARTS * NORM_PART) return rms_scale<float>(x, hidden, eps);
  float sums[PART_LANES] = {};
  for (int first = 0; first < hidden; first += NORM_PART) {
    float squares[NORM_PART];
    SIMD
    for (int i = 0; i < NORM_PART; i++) {
      const float element = first + i < hidden ? x[first + i] : 0.0f;
      squares[i] = element * element;
    }
    sums[first / NORM_PART % PART_LANES] += sum_by_halves(squares);
  }
  return rsqrt_of(sum_by_halves(sums) / static_cast<float>(hidden) + eps);
}
#endif

// A thread's part of a row of f32 that the block holds: pieces of four elements, all asked for at once. For GPUs.
template <int PIECES>
struct HeldRow {
  Floats4 pieces[PIECES];
};
// Index of this thread's first element of piece p.
DEVICE int held_at(int p) { return 4 * (thread_id() + p * BLOCK); }

template <int PIECES>
DEVICE void load_held(HeldRow<PIECES>& held, const float* row, int hidden) {
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    if (held_at(p) < hidden) held.pieces[p] = load_aligned<Floats4>(row + held_at(p));
  }
}

// As rms_scale, to the bit; `parts` is shared memory.
template <int PIECES, class Parts>
DEVICE float rms_of_held(const HeldRow<PIECES>& held, Parts parts, int hidden, float eps) {
  UNROLL
  for (int p = 0; p < PIECES; p++) {
    if (p * 4 * BLOCK < hidden) leave_part(parts, held_at(p), hidden, held.pieces[p]);
  }
  block_sync();
  return rms_of_parts(parts, hidden, eps);
}

// Row `row` of y from that of x, which y may be: a thread reads and writes its own elements. One block a row.
template <class T>
DEVICE void normalize(int row, const T* x, const float* __restrict weight, T* y, int hidden, float eps) {
  const T* in = x + static_cast<size_t>(row) * hidden;
  T* out = y + static_cast<size_t>(row) * hidden;
  const float scale = rms_scale(in, hidden, eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) store(out + i, to_float(in[i]) * scale * weight[i]);
}

}  // namespace forge
