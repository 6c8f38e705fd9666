// scale_experts: weights[t][i] *= scale[ids[t][i]]
#include "forge/device.h"

// One block a row.
KERNEL(scale_experts, float* __restrict weights,  // [rows, used]
       const int32_t* __restrict ids,             // [rows, used]
       const float* __restrict scale,             // [experts]
       int used) {
  const size_t start = static_cast<size_t>(BLOCK_INDEX.x) * used;
  for (int i = forge::thread_id(); i < used; i += BLOCK) weights[start + i] *= scale[ids[start + i]];
}
