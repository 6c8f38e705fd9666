// split_query_gates: heads of q that each bring the gate of what they attend to: q, k and v side by side, and the gates
#include "forge/device.h"

// One block a row.
KERNEL(split_query_gates, const float* __restrict gated,  // [rows, 2 * heads + 2 * kv_heads, head_dim]: q, gate, q, …
       float* __restrict qkv,                             // [rows, heads + 2 * kv_heads, head_dim]
       float* __restrict gate,                            // [rows, heads, head_dim]
       int heads, int kv_heads, int head_dim) {
  using namespace forge;
  const size_t row = BLOCK_INDEX.x;
  const int queries = heads * head_dim, others = 2 * kv_heads * head_dim;
  const float* from = gated + row * (2 * queries + others);
  float* attended = qkv + row * (queries + others);
  float* gates = gate + row * queries;
  for (int i = thread_id(); i < queries; i += BLOCK) {
    const int at = i + i / head_dim * head_dim;
    attended[i] = from[at];
    gates[i] = from[at + head_dim];
  }
  SIMD
  for (int i = thread_id(); i < others; i += BLOCK) attended[queries + i] = from[2 * queries + i];
}
