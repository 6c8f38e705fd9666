// gate_up_normed: y = silu(gate · norm(x)) * (up · norm(x)) of one row, quantized as quantize_q8 does
//
// rms_norm_quantize, two matmul_packed and swiglu_quantize in one launch, to the bit. A block owns 32 elements of the
// result, which share a scale.
#include "forge/normed.h"

namespace {
using namespace forge;

// Rows of gate, and as many of up, that a wave multiplies in a turn.
constexpr int PAIRS = ROWS_ALONE / 2;
// If LDS holds no more.
constexpr int RESIDENT = MANY_REGISTERS ? 3 : 4;
template <class F>
DEVICE void pairs_of(const uint8_t* (&rows)[2 * PAIRS], const uint8_t* gate, const uint8_t* up, int first, int blocks) {
  UNROLL
  for (int i = 0; i < PAIRS; i++) {
    const size_t row = static_cast<size_t>(first + i * WAVES + wave_id()) * packed_row_bytes<F>(blocks);
    rows[2 * i] = gate + row;
    rows[2 * i + 1] = up + row;
  }
}

// Grid: x = ffn / 32.
template <class F>
DEVICE void gate_up_normed(int block, const uint8_t* __restrict gate, const uint8_t* __restrict up,
                           const NormInput& input, uint8_t* __restrict y, int ffn, int blocks) {
  SHARED(float, lanes, (2 * Q8_BLOCK * LANE_STRIDE));
  SHARED(float, results, (2 * Q8_BLOCK));
  NORMED_ROW(row);
  const uint8_t* rows[2 * PAIRS];
  pairs_of<F>(rows, gate, up, block * Q8_BLOCK, blocks);
  auto begun = load_first<F>(rows, blocks);
  wait_for_inputs();
  normalize_row(row, input, blocks);
  for (int turn = 0; turn < Q8_BLOCK; turn += PAIRS * WAVES) {
    pairs_of<F>(rows, gate, up, block * Q8_BLOCK + turn, blocks);
    if (turn > 0) begun = load_first<F>(rows, blocks);
    float sums[2 * PAIRS][1];
    packed_dots<F>(sums, begun, rows, row, blocks);
    UNROLL
    for (int i = 0; i < 2 * PAIRS; i++) {
      store_lane_sum(lanes, i % 2 * Q8_BLOCK + turn + i / 2 * WAVES + wave_id(), sums[i][0]);
    }
  }
  let_next_begin();
  block_sync();
  for (int i = thread_id(); i < 2 * Q8_BLOCK; i += BLOCK) results[i] = sum_in_order(lanes, i);
  block_sync();
  if (wave_id() > 0) return;
  // Lanes that store nothing take part in the shuffles.
  float values[Q8_HELD];
  UNROLL
  for (int i = 0; i < Q8_HELD; i++) {
    const int n = thread_id() % Q8_LANES * Q8_HELD + i;
    values[i] = silu(results[n]) * results[Q8_BLOCK + n];
  }
  quantize_block(values, y, ffn, block, thread_id() < Q8_LANES);
}
}  // namespace

#define GATE_UP_NORMED(type, Name)                                                                                    \
  KERNEL_RESIDENT(RESIDENT, gate_up_normed_##type, const uint8_t* __restrict gate, /* [ffn, packed_row_bytes] */      \
                  const uint8_t* __restrict up,                                    /* the same */                     \
                  const float* __restrict x,                                       /* [in] */                         \
                  const float* __restrict norm,                                    /* [in] */                         \
                  const float* __restrict parts,                                   /* [in / NORM_PART], see norm.h */ \
                  uint8_t* __restrict y,                                           /* [ffn / 32, 40], see q8.h */     \
                  int ffn, int blocks, float eps) {                                                                   \
    gate_up_normed<forge::Packed##Name>(BLOCK_INDEX_AHEAD.x, gate, up, NormInput{x, norm, parts, eps}, y, ffn,        \
                                        blocks);                                                                      \
  }

FORGE_PACKED_FORMATS(GATE_UP_NORMED)
