// rms_norm_convert: rms_norm, stored as 16-bit floats
#include "forge/convert.h"
#include "forge/norm.h"

namespace {
using namespace forge;

// One block a row.
template <class T>
DEVICE void rms_norm_convert(int row, const float* __restrict x, const float* __restrict weight, T* __restrict y,
                             int hidden, float eps) {
  const float* source = x + static_cast<size_t>(row) * hidden;
  const float scale = inv_rms(source, hidden, eps);
  convert_row(y + static_cast<size_t>(row) * hidden, hidden, 0, hidden,
              [&](int i) { return source[i] * scale * weight[i]; });
}
}  // namespace

KERNEL(rms_norm_convert_f16, const float* __restrict x,  // [rows, hidden]
       const float* __restrict weight,                   // [hidden]
       forge::half_t* __restrict y,                      // [rows, hidden]
       int hidden, float eps) {
  rms_norm_convert(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}

KERNEL(rms_norm_convert_bf16, const float* __restrict x, const float* __restrict weight, forge::bfloat_t* __restrict y,
       int hidden, float eps) {
  rms_norm_convert(BLOCK_INDEX.x, x, weight, y, hidden, eps);
}
