// gate_up_swiglu_packed: y[t] = silu(gate · x[t]) * (up · x[t]), quantized as quantize_q8 does
//
// Two matmul_packed, swiglu and quantize_q8 in one launch, to the bit, for few rows: what lies between them never
// reaches memory. A block owns 32 elements of the result, which share a scale.
#include "forge/packed_dot.h"
#include "forge/quantize.h"

namespace {
using namespace forge;

template <class F, int T, class Lanes, class Results>
DEVICE void gate_up_swiglu(int element_block, const uint8_t* __restrict gate, const uint8_t* __restrict up,
                           const uint8_t* __restrict x, uint8_t* __restrict y, int first_token, int count, int ffn,
                           int blocks, Lanes lanes, Results results) {
  const size_t row_bytes = packed_row_bytes<F>(blocks);
  const int x_bytes = blocks * Q8_BLOCK_BYTES;
  int offsets[T];
  UNROLL
  for (int t = 0; t < T; t++) offsets[t] = min_of(t, count - 1) * x_bytes;

  // In each turn a wave multiplies one row of gate and the same of up.
  for (int turn = 0; turn < Q8_BLOCK; turn += WAVES) {
    const size_t row = (static_cast<size_t>(element_block) * Q8_BLOCK + turn + wave_id()) * row_bytes;
    const uint8_t* rows[2] = {gate + row, up + row};
    float sums[2][T];
    packed_dots<F>(sums, rows, x + static_cast<size_t>(first_token) * x_bytes, offsets, blocks);
    UNROLL
    for (int i = 0; i < 2; i++) {
      UNROLL
      for (int t = 0; t < T; t++) store_lane_sum(lanes, (t * 2 + i) * WAVES + wave_id(), sums[i][t]);
    }
    block_sync();
    for (int i = thread_id(); i < 2 * T * WAVES; i += BLOCK) {
      results[i / WAVES * Q8_BLOCK + turn + i % WAVES] = sum_in_order(lanes, i);
    }
    block_sync();
  }
  for (int at = 0; at < T; at += BLOCK / Q8_LANES) {
    const int t = at + thread_id() / Q8_LANES, first = thread_id() % Q8_LANES * Q8_HELD;
    const int source = min_of(t, T - 1) * 2 * Q8_BLOCK + first;
    float values[Q8_HELD];
    for (int i = 0; i < Q8_HELD; i++) {
      const float g = results[source + i], u = results[source + Q8_BLOCK + i];
      values[i] = silu(g) * u;
    }
    uint8_t* target = y + static_cast<size_t>(first_token + min_of(t, count - 1)) * q8_row_bytes(ffn);
    quantize_block(values, target, ffn, element_block, t < count);
  }
}

// Grid: x = ffn / 32, y = ceil(tokens / PACKED_TOKENS).
template <class F>
DEVICE void gate_up_swiglu_packed(Dim3 block, const uint8_t* __restrict gate, const uint8_t* __restrict up,
                                  const uint8_t* __restrict x, uint8_t* __restrict y, const int32_t* __restrict tokens,
                                  int ffn, int blocks) {
  const int first = block.y * PACKED_TOKENS, count = min_of(*tokens - first, PACKED_TOKENS);
  if (count <= 0) return;
  SHARED(float, lanes, (2 * WAVES * PACKED_TOKENS * LANE_STRIDE));
  SHARED(float, results, (2 * PACKED_TOKENS * Q8_BLOCK));
  const auto run = [&](auto at_once) {
    gate_up_swiglu<F, decltype(at_once)::value>(block.x, gate, up, x, y, first, count, ffn, blocks, lanes + 0,
                                                results + 0);
  };
  if (count == 1) {
    run(Constant<1>{});
  } else if (count == 2) {
    run(Constant<2>{});
  } else if (count <= 4) {
    run(Constant<4>{});
  } else {
    run(Constant<PACKED_TOKENS>{});
  }
}
}  // namespace

#define GATE_UP_SWIGLU_PACKED(name, Format)                                                      \
  KERNEL_RESIDENT(2, name, const uint8_t* __restrict gate, /* [ffn, packed_row_bytes], Format */ \
                  const uint8_t* __restrict up,            /* the same */                        \
                  const uint8_t* __restrict x,             /* [tokens, in / 32, 40], see q8.h */ \
                  uint8_t* __restrict y,                   /* [tokens, ffn / 32, 40] */          \
                  const int32_t* __restrict tokens,        /* [1] */                             \
                  int ffn, int blocks) {                                                         \
    gate_up_swiglu_packed<forge::Format>(BLOCK_INDEX, gate, up, x, y, tokens, ffn, blocks);      \
  }

GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q4_0, PackedQ4_0)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q4_1, PackedQ4_1)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q5_0, PackedQ5_0)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q5_1, PackedQ5_1)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q8_0, PackedQ8_0)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q4_k, PackedQ4_K)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q5_k, PackedQ5_K)
GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_q6_k, PackedQ6_K)
