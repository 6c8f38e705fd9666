// rms_norm_quantize: rms_norm, then quantize_q8, in one launch
#include "forge/norm.h"
#include "forge/quantize.h"

// One block a row.
KERNEL(rms_norm_quantize, const float* __restrict x,  // [rows, hidden]
       const float* __restrict weight,                // [hidden]
       uint8_t* __restrict y,                         // [rows, hidden / 32, 40], see q8.h
       int hidden, float eps) {
  using namespace forge;
  const float* source = x + static_cast<size_t>(BLOCK_INDEX.x) * hidden;
  const float scale = inv_rms(source, hidden, eps);
  quantize_row(y + static_cast<size_t>(BLOCK_INDEX.x) * q8_row_bytes(hidden), hidden, 0, hidden,
               [&](float(&values)[Q8_HELD], int i) {
                 float factors[Q8_HELD];
                 load_held(values, source + i);
                 load_held(factors, weight + i);
                 for (int j = 0; j < Q8_HELD; j++) values[j] = values[j] * scale * factors[j];
               });
}
