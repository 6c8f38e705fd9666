// xielu: y = alpha_p · y² + beta · y above 0, and alpha_n · (e^min(y, eps) - 1 - y) + beta · y below; Huang & Schlag
// (2024)
#include "forge/swiglu.h"

// Grid: x = rows, y = ceil(columns / SWIGLU_PART).
KERNEL(xielu, float* __restrict y,  // [rows, columns]
       int columns, float alpha_n, float alpha_p, float beta, float eps) {
  using namespace forge;
  float* row = y + static_cast<size_t>(BLOCK_INDEX.x) * columns;
  const int first = BLOCK_INDEX.y * SWIGLU_PART, end = min_of(columns, first + SWIGLU_PART);
  SIMD
  for (int i = first + thread_id(); i < end; i += BLOCK) {
    const float v = row[i], below = exp_of(v < eps ? v : eps) - 1.0f - v;
    row[i] = (v > 0.0f ? alpha_p * v * v : alpha_n * below) + beta * v;
  }
}
