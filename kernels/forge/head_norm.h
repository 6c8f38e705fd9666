// The norm of one head, by the wave that owns it.
#pragma once

#include "forge/device.h"

namespace forge {

// 1 / sqrt(mean(x²) + eps), for all lanes. The order of the sum depends on the head's size alone.
DEVICE float head_scale(const float* x, int head_dim, float eps) {
  float sum = 0.0f;
  SIMD_SUM(sum)
  for (int i = lane_id(); i < head_dim; i += WAVE) sum += x[i] * x[i];
  return rsqrt_of(wave_sum(sum) / static_cast<float>(head_dim) + eps);
}

}  // namespace forge
