// gate_up_swiglu: y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t])
//
// Two matmuls and swiglu in one launch, for few rows: what lies between them never reaches memory. Each dot product is
// that of matmul.
#include "forge/contract.h"
#include "forge/dot.h"

namespace {
using namespace forge;

constexpr int TOKENS = MATMUL_TOKENS;

// Grid: x = ceil(ffn / WAVES), y = ceil(tokens / TOKENS).
template <class W>
DEVICE void gate_up_swiglu(Dim3 block, const W* __restrict weight, const float* __restrict x, float* __restrict y,
                           const int32_t* __restrict tokens, int ffn, int hidden) {
  const int n = block.x * WAVES + wave_id();
  if (n >= ffn) return;
  const W* gate = weight + static_cast<size_t>(n) * hidden;
  const W* up = gate + static_cast<size_t>(ffn) * hidden;
  const int end = min_of(*tokens, (block.y + 1) * TOKENS);
  for (int t = block.y * TOKENS; t < end; t++) {
    const float* row = x + static_cast<size_t>(t) * hidden;
    const float g = wave_sum(dot(gate, row, hidden)), u = wave_sum(dot(up, row, hidden));
    if (lane_id() == 0) y[static_cast<size_t>(t) * ffn + n] = silu(g) * u;
  }
}
}  // namespace

KERNEL(gate_up_swiglu_f32, const float* __restrict weight,  // [2, ffn, hidden]: gate, up
       const float* __restrict x,                           // [tokens, hidden]
       float* __restrict y,                                 // [tokens, ffn]
       const int32_t* __restrict tokens,                    // [1]
       int ffn, int hidden) {
  gate_up_swiglu(BLOCK_INDEX, weight, x, y, tokens, ffn, hidden);
}

KERNEL(gate_up_swiglu_f16, const forge::half_t* __restrict weight, const float* __restrict x, float* __restrict y,
       const int32_t* __restrict tokens, int ffn, int hidden) {
  gate_up_swiglu(BLOCK_INDEX, weight, x, y, tokens, ffn, hidden);
}
