// gate_up_swiglu_packed: y[t] = silu(gate · x[t]) * (up · x[t]), quantized as quantize_q8 does
//
// Two matmul_packed, swiglu and quantize_q8 in one launch, to the bit, for few rows: what lies between them never
// reaches memory. A block owns 32 elements of the result, which share a scale.
#include "forge/packed_dot.h"
#include "forge/quantize.h"

namespace {
using namespace forge;

// The rows of gate and up that a wave multiplies in a turn.
template <class F>
DEVICE void rows_of(const uint8_t* (&rows)[2], const uint8_t* gate, const uint8_t* up, int first, int blocks) {
  const size_t row = static_cast<size_t>(first + wave_id()) * packed_row_bytes<F>(blocks);
  rows[0] = gate + row;
  rows[1] = up + row;
}

// `begun` is what the wave has asked for of its first rows.
template <class F, int T, class Lanes, class Results>
DEVICE void gate_up_swiglu(int element_block, FirstParts<F, 2> begun, const uint8_t* gate, const uint8_t* up,
                           const uint8_t* x, uint8_t* y, int first_token, int count, int ffn, int blocks, Lanes lanes,
                           Results results) {
  const int x_bytes = blocks * Q8_BLOCK_BYTES;
  InputRows<T> inputs{x + static_cast<size_t>(first_token) * x_bytes, {}};
  UNROLL
  for (int t = 0; t < T; t++) inputs.offsets[t] = min_of(t, count - 1) * x_bytes;

  for (int turn = 0; turn < Q8_BLOCK; turn += WAVES) {
    const uint8_t* rows[2];
    rows_of<F>(rows, gate, up, element_block * Q8_BLOCK + turn, blocks);
    if (turn > 0) begun = load_first<F>(rows, blocks);
    float sums[2][T];
    packed_dots<F>(sums, begun, rows, inputs, blocks);
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
  let_next_begin();
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

// Grid: x = ffn / 32, y = ceil(tokens / MOST), MOST 1 or PACKED_TOKENS.
template <class F, int MOST>
DEVICE void gate_up_swiglu_packed(Dim3 block, const uint8_t* __restrict gate, const uint8_t* __restrict up,
                                  const uint8_t* __restrict x, uint8_t* __restrict y, const int32_t* __restrict tokens,
                                  int ffn, int blocks) {
  SHARED(float, lanes, (2 * WAVES * MOST * LANE_STRIDE));
  SHARED(float, results, (2 * MOST * Q8_BLOCK));
  // Their number is the step's own: it lay there before the first launch.
  const int first_token = block.y * MOST, count = min_of(*tokens - first_token, MOST);
  const uint8_t* rows[2];
  rows_of<F>(rows, gate, up, block.x * Q8_BLOCK, blocks);
  if constexpr (MOST == 1) {
    const auto begun = load_first<F>(rows, blocks);
    wait_for_inputs();
    if (count <= 0) return;
    gate_up_swiglu<F, 1>(block.x, begun, gate, up, x, y, first_token, 1, ffn, blocks, lanes + 0, results + 0);
  } else {
    wait_for_inputs();
    if (count <= 0) return;
    with_tokens<MOST>(count, [&](auto at_once) {
      gate_up_swiglu<F, decltype(at_once)::value>(block.x, load_first<F>(rows, blocks), gate, up, x, y, first_token,
                                                  count, ffn, blocks, lanes + 0, results + 0);
    });
  }
}
}  // namespace

#define GATE_UP_SWIGLU_PACKED(name, resident, most, Format)                                             \
  KERNEL_RESIDENT(resident, name, const uint8_t* __restrict gate, /* [ffn, packed_row_bytes], Format */ \
                  const uint8_t* __restrict up,                   /* the same */                        \
                  const uint8_t* __restrict x,                    /* [tokens, in / 32, 40], see q8.h */ \
                  uint8_t* __restrict y,                          /* [tokens, ffn / 32, 40] */          \
                  const int32_t* __restrict tokens,               /* [1] */                             \
                  int ffn, int blocks) {                                                                \
    gate_up_swiglu_packed<forge::Format, most>(BLOCK_INDEX_AHEAD, gate, up, x, y, tokens, ffn, blocks); \
  }
// One row of x a block, in few registers; or up to eight.
#define GATE_UP_SWIGLU_PACKED_BOTH(type, Name)                                \
  GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_one_##type, 4, 1, Packed##Name) \
  GATE_UP_SWIGLU_PACKED(gate_up_swiglu_packed_##type, 2, forge::PACKED_TOKENS, Packed##Name)

FORGE_PACKED_FORMATS(GATE_UP_SWIGLU_PACKED_BOTH)
