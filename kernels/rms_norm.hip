// rms_norm: y = x / sqrt(mean(x²) + eps) * weight, for each row
//
// A row's sum of squares is taken in an order that depends on its length alone.
#include "forge/norm.h"

namespace {
using namespace forge;

// One block a row. y may be x: a thread reads and writes its own elements.
template <class T>
DEVICE void normalize(int row, const T* x, const float* __restrict weight, T* y, int hidden, float eps) {
  const T* in = x + static_cast<size_t>(row) * hidden;
  T* out = y + static_cast<size_t>(row) * hidden;
  const float scale = rms_scale(in, hidden, eps);

  SIMD
  for (int i = thread_id(); i < hidden; i += BLOCK) store(out + i, to_float(in[i]) * scale * weight[i]);
}
}  // namespace

KERNEL(rms_norm, const float* x,        // [rows, hidden]
       const float* __restrict weight,  // [hidden]
       float* y,                        // [rows, hidden]; may be x
       int hidden, float eps) {
  normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}

KERNEL(rms_norm_f16, const forge::half_t* x, const float* __restrict weight, forge::half_t* y, int hidden, float eps) {
  normalize(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}
