// mix_streams: adds to each of four streams a mixture of all of them, or its share of what the first one gained
//
// Shares are products of coefficients with tanh(scale * scores); Baykal et al., "Alternating Updates for Efficient
// Transformers" (2023), in the form of Gemma 3n. terms = 4: stream i gains sum_j share[i][j] * stream j, before that
// of each. terms = 1: x - kept is what the first stream, which was kept, gained; stream i gains (1 + share[i]) of it.
#include "forge/contract.h"
#include "forge/device.h"

namespace {
constexpr int STREAMS = 4;

// shares[i] = coefficients[i] · tanh(scale * scores)
template <int COUNT>
DEVICE void shares_of(float (&shares)[COUNT], const float* coefficients, const float* scores, float scale) {
  float modalities[STREAMS];
  for (int k = 0; k < STREAMS; k++) modalities[k] = forge::softcapped(scores[k] * scale, 1.0f);
  for (int i = 0; i < COUNT; i++) {
    float sum = 0.0f;
    for (int k = 0; k < STREAMS; k++) sum += coefficients[i * STREAMS + k] * modalities[k];
    shares[i] = sum;
  }
}
}  // namespace

// Grid: x = rows, y = ceil(hidden / SWIGLU_PART).
KERNEL(mix_streams, float* __restrict x,  // [rows, hidden], and so the others
       float* __restrict second, float* __restrict third, float* __restrict fourth,
       float* __restrict kept,                // [rows, hidden]: at the end the first stream times weight
       const float* __restrict weight,        // [hidden]
       const float* __restrict scores,        // [rows, 4]
       const float* __restrict coefficients,  // [terms, 4, 4]: of terms = 4 a row for each (i, j), of 1 for each i
       int hidden, int terms, float scale) {
  using namespace forge;
  const Dim3 block = BLOCK_INDEX;
  const size_t row = static_cast<size_t>(block.x) * hidden;
  const float* score = scores + static_cast<size_t>(block.x) * STREAMS;
  const int first = block.y * SWIGLU_PART, end = min_of(hidden, first + SWIGLU_PART);
  float *a = x + row, *b = second + row, *c = third + row, *d = fourth + row, *keep = kept + row;
  if (terms == 1) {
    float by[STREAMS];
    shares_of(by, coefficients, score, scale);
    SIMD
    for (int i = first + thread_id(); i < end; i += BLOCK) {
      const float gained = a[i] - keep[i], now = keep[i] + (1.0f + by[0]) * gained;
      a[i] = now;
      b[i] += (1.0f + by[1]) * gained;
      c[i] += (1.0f + by[2]) * gained;
      d[i] += (1.0f + by[3]) * gained;
      keep[i] = now * weight[i];
    }
    return;
  }
  float by[STREAMS * STREAMS];
  shares_of(by, coefficients, score, scale);
  SIMD
  for (int i = first + thread_id(); i < end; i += BLOCK) {
    const float p = a[i], q = b[i], r = c[i], s = d[i];
    const float now = p + (by[0] * p + by[1] * q + by[2] * r + by[3] * s);
    a[i] = now;
    b[i] = q + (by[4] * p + by[5] * q + by[6] * r + by[7] * s);
    c[i] = r + (by[8] * p + by[9] * q + by[10] * r + by[11] * s);
    d[i] = s + (by[12] * p + by[13] * q + by[14] * r + by[15] * s);
    keep[i] = now * weight[i];
  }
}
