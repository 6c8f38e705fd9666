// matmul_packed: y[t][n] = sum_k weight[n][k] * x[t][k], weight as repack makes it, x as quantize_q8 makes it
//
// For GPUs. A wave takes two rows of the weight at a time, or four for one row of x, and reads them once for up to
// eight rows of x. The order of summation depends on k alone, so a row's bits do not depend on how many rows there are.
#include "forge/experts.h"
#include "forge/packed_dot.h"

namespace {
using namespace forge;

constexpr int ROWS = BLOCK_ROWS;

struct Output {
  float* y;
  int out, y_stride, accumulate;
};

// `begun` is what the wave has asked for of its first rows.
template <class F, int T, int R, class Lanes>
DEVICE void multiply(int first, FirstParts<F, R> begun, const uint8_t* weight, const uint8_t* x, int first_token,
                     int count, int blocks, const Output& output, Lanes lanes) {
  const int x_bytes = blocks * Q8_BLOCK_BYTES;
  InputRows<T> inputs{x + static_cast<size_t>(first_token) * x_bytes, {}};
  UNROLL
  for (int t = 0; t < T; t++) inputs.offsets[t] = min_of(t, count - 1) * x_bytes;

  multiply_rows<F, T>(first, begun, weight, inputs, output.out, blocks, lanes);
  for (int i = thread_id(); i < ROWS * T; i += BLOCK) {
    const int n = first + i % ROWS, t = i / ROWS;
    if (n >= output.out || t >= count) continue;
    const float sum = sum_in_order(lanes, i);
    float* target = output.y + static_cast<size_t>(first_token + t) * output.y_stride + n;
    *target = output.accumulate ? *target + sum : sum;
  }
}

// Grid: x = ceil(out / ROWS), y = ceil(tokens / MOST), MOST 1 or PACKED_TOKENS.
template <class F, int MOST>
DEVICE void matmul_packed(Dim3 block, const uint8_t* __restrict weight, const uint8_t* __restrict x,
                          const int32_t* __restrict tokens, int blocks, const Output& output) {
  SHARED(float, lanes, (ROWS * MOST * LANE_STRIDE));
  const int first = block.x * ROWS, first_token = block.y * MOST;
  constexpr int R = MOST == 1 ? ROWS_ALONE : ROWS_AT_ONCE;
  const uint8_t* rows[R];
  rows_from<F>(rows, weight, first + wave_id() * R, output.out, blocks);
  // The step's own: it lay there before the first launch.
  const int count = min_of(*tokens - first_token, MOST);
  if constexpr (MOST == 1) {
    const auto begun = load_first<F>(rows, blocks);
    wait_for_inputs();
    if (count <= 0) return;
    multiply<F, 1>(first, begun, weight, x, first_token, 1, blocks, output, lanes + 0);
  } else {
    wait_for_inputs();
    if (count <= 0) return;
    // What a lambda takes by reference would lie in memory on AMD: each loads for itself.
    with_tokens<MOST>(count, [&](auto at_once) {
      multiply<F, decltype(at_once)::value>(first, load_first<F>(rows, blocks), weight, x, first_token, count, blocks,
                                            output, lanes + 0);
    });
  }
}
}  // namespace

#define MATMUL_PACKED(name, resident, most, Format)                                                             \
  KERNEL_RESIDENT(resident, name, const uint8_t* __restrict weight,    /* [out, packed_row_bytes], Format */    \
                  const uint8_t* __restrict x,                         /* [tokens, in / 32, 40], see q8.h */    \
                  float* __restrict y,                                 /* [tokens, out], rows y_stride apart */ \
                  const int32_t* __restrict tokens,                    /* [1] */                                \
                  int out, int blocks, int y_stride, int accumulate) { /* 1: y += */                            \
    matmul_packed<forge::Format, most>(BLOCK_INDEX_AHEAD, weight, x, tokens, blocks,                            \
                                       Output{y, out, y_stride, accumulate});                                   \
  }
// One row of x a block, in few registers; or up to eight.
#define MATMUL_PACKED_BOTH(type, Name)                        \
  MATMUL_PACKED(matmul_packed_one_##type, 4, 1, Packed##Name) \
  MATMUL_PACKED(matmul_packed_##type, 2, forge::PACKED_TOKENS, Packed##Name)

FORGE_PACKED_FORMATS(MATMUL_PACKED_BOTH)

// Of an expert's matrix and its run of rows each. Grid: as above, z = experts.
#define MATMUL_EXPERTS(name, resident, most, Format)                                                                   \
  KERNEL_RESIDENT(resident, name, const uint8_t* __restrict weight, /* [experts, out, packed_row_bytes] */             \
                  const uint8_t* __restrict x,                      /* [places, in / 32, 40], see q8.h */              \
                  float* __restrict y,                              /* [places, out], rows y_stride apart */           \
                  const int32_t* __restrict runs,                   /* [experts, 3], see experts.h */                  \
                  int out, int blocks, int y_stride) {                                                                 \
    using F = forge::Format;                                                                                           \
    const forge::Dim3 block = BLOCK_INDEX;                                                                             \
    const forge::Run run = forge::run_at(runs, block.z);                                                               \
    if (block.y * most >= run.count) return;                                                                           \
    matmul_packed<F, most>(block, weight + static_cast<size_t>(run.expert) * out * forge::packed_row_bytes<F>(blocks), \
                           x + static_cast<size_t>(run.first) * blocks * forge::Q8_BLOCK_BYTES,                        \
                           forge::run_count(runs, block.z), blocks,                                                    \
                           Output{y + static_cast<size_t>(run.first) * y_stride, out, y_stride, 0});                   \
  }
#define MATMUL_EXPERTS_BOTH(type, Name)                                \
  MATMUL_EXPERTS(matmul_packed_experts_one_##type, 4, 1, Packed##Name) \
  MATMUL_EXPERTS(matmul_packed_experts_##type, 2, forge::PACKED_TOKENS, Packed##Name)

FORGE_PACKED_FORMATS(MATMUL_EXPERTS_BOTH)
