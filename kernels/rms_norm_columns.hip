// rms_norm_columns: rms_norm, in the columns that Hopper's matrix units take
#include "forge/norm.h"
#include "forge/to_columns.h"

namespace {
using namespace forge;

// One block a row.
template <class T>
DEVICE void rms_norm_columns(int row, const float* __restrict x, const float* __restrict weight, T* __restrict y,
                             int hidden, int y_rows, float eps) {
  const float* source = x + static_cast<size_t>(row) * hidden;
  const float scale = rms_scale(source, hidden, eps);
  store_columns(y, row, y_rows, hidden, 0, hidden, [&](int i) { return source[i] * scale * weight[i]; });
}
}  // namespace

KERNEL(rms_norm_columns_f16, const float* __restrict x,  // [rows, hidden]
       const float* __restrict weight,                   // [hidden]
       forge::half_t* __restrict y,                      // [chunks, y_rows, CHUNK]
       int hidden, int y_rows, float eps) {
  rms_norm_columns(BLOCK_INDEX.x, x, weight, y, hidden, y_rows, eps);
}

KERNEL(rms_norm_columns_bf16, const float* __restrict x, const float* __restrict weight, forge::bfloat_t* __restrict y,
       int hidden, int y_rows, float eps) {
  rms_norm_columns(BLOCK_INDEX.x, x, weight, y, hidden, y_rows, eps);
}
