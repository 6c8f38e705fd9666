// linear of one row, in four ways with the same bits; a grid's blocks share the rows of the weight
//
//   linear_row      y[n] (+)= sum_k weight[n][k] * x[k], x in columns
//   linear_normed   y[n] = sum_k weight[n][k] * norm(x)[k] + bias[n]: rms_norm_columns, linear and bias_add in one
//                   launch
//   linear_swiglu   y[n] = silu(sum_k gate[n][k] * norm(x)[k]) * sum_k up[n][k] * norm(x)[k], in columns
//   linear_summed   y[n] += sum_k weight[n][k] * x[k], and the sums of the squares of y, which the row's norm begins
//   with
#include "forge/hopper/linear_decode.h"
#include "forge/swiglu.h"

namespace {
using namespace forge;
static_assert(GROUP_ROWS == NORM_PART, "a group writes one part");

struct Plain {
  static constexpr bool IS_PAIR = false;
  using Held = float;
  const uint8_t* weight;
  float* y;
  const int32_t* tokens;
  int out, in, accumulate;
};
DEVICE float held_of(const Plain& job, int n) { return job.accumulate ? job.y[n] : 0.0f; }
template <class Sums>
DEVICE void finish_group(const Plain& job, int group, float held, Sums sums) {
  const int i = lane_id(), n = group * GROUP_ROWS + i;
  if (i >= GROUP_ROWS || n >= job.out || *job.tokens < 1) return;
  job.y[n] = job.accumulate ? held + sums(i) : sums(i);
}

struct Normed {
  static constexpr bool IS_PAIR = false;
  using Held = float;
  const uint8_t* weight;
  const float* bias;  // null: none
  float* y;
  int out, in;
};
DEVICE float held_of(const Normed& job, int n) { return job.bias ? job.bias[n] : 0.0f; }
template <class Sums>
DEVICE void finish_group(const Normed& job, int group, float bias, Sums sums) {
  const int i = lane_id(), n = group * GROUP_ROWS + i;
  if (i < GROUP_ROWS && n < job.out) job.y[n] = job.bias ? sums(i) + bias : sums(i);
}

template <class T>
struct Swiglu {
  static constexpr bool IS_PAIR = true;
  using Held = float;
  const uint8_t* weight;
  T* y;
  int32_t* saturated;
  int out, in, y_rows;
};
template <class T, class Gates, class Ups>
DEVICE void finish_group(const Swiglu<T>& job, int group, Gates gates, Ups ups) {
  const int i = lane_id(), n = group * GROUP_ROWS + i;
  if (i < GROUP_ROWS) store_column(job.y + column_place(0, n, job.y_rows), silu(gates(i)) * ups(i), job.saturated);
}

struct Summed {
  static constexpr bool IS_PAIR = false;
  using Held = float;
  const uint8_t* weight;
  float *y, *parts;
  int out, in;
};
DEVICE float held_of(const Summed& job, int n) { return job.y[n]; }
template <class Sums>
DEVICE void finish_group(const Summed& job, int group, float held, Sums sums) {
  const float part = sum_of_squares([&](int i) {
    const int n = group * GROUP_ROWS + i;
    return n < job.out ? job.y[n] = held + sums(i) : 0.0f;
  });
  if (lane_id() == 0) job.parts[group] = part;
}
}  // namespace

// Grid: x = ceil(out / 16), at most LINEAR_DECODE_BLOCKS.
#define LINEAR_PLAIN(suffix, Format, type, batch)                                                            \
  KERNEL_OF(BLOCK, 2, linear_row_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */ \
            const type* __restrict x,                                        /* [chunks, x_rows, CHUNK] */   \
            float* __restrict y,                                             /* [1, out] */                  \
            const int32_t* __restrict tokens,                                /* [1] */                       \
            int, int out, int in, int x_rows, int, int accumulate) {                                         \
    linear_decode<Format, batch>(ColumnRow<type>{x, x_rows}, Plain{weight, y, tokens, out, in, accumulate},  \
                                 BLOCK_INDEX_AHEAD.x, grid_width());                                         \
  }
#define LINEAR_NORMED(suffix, Format, type, batch)                                                                 \
  KERNEL_OF(BLOCK, 2, linear_normed_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */    \
            const float* __restrict x,                                          /* [in] */                         \
            const float* __restrict norm,                                       /* [in] */                         \
            const float* __restrict parts,                                      /* [in / NORM_PART], see norm.h */ \
            const float* __restrict bias,                                       /* [out] */                        \
            float* __restrict y,                                                /* [out] */                        \
            int32_t* __restrict saturated,                                      /* [1] */                          \
            int out, int in, int biased, float eps) {                                                              \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                         \
    const NormedRow<type> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                          \
    linear_decode<Format, batch>(row, Normed{weight, biased ? bias : nullptr, y, out, in}, block, grid_width());   \
  }
// Two matrices, below each other but for their formats: blocks_0 blocks share the first.
#define LINEAR_NORMED_PAIR(suffix, First, first_batch, Second, second_batch)                                        \
  KERNEL_OF(BLOCK, 2, linear_normed_##suffix, const uint8_t* __restrict weight_0, /* [tiles_0, chunks, 4, bytes] */ \
            const uint8_t* __restrict weight_1, const float* __restrict x, const float* __restrict norm,            \
            const float* __restrict parts, const float* __restrict bias, float* __restrict y,                       \
            int32_t* __restrict saturated, int out_0, int out_1, int in, int blocks_0, int biased, float eps) {     \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                          \
    const NormedRow<half_t> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                         \
    linear_decode_pair<First, first_batch, Second, second_batch>(                                                   \
        row, Normed{weight_0, biased ? bias : nullptr, y, out_0, in},                                               \
        Normed{weight_1, biased ? bias + out_0 : nullptr, y + out_0, out_1, in}, block, blocks_0, grid_width());    \
  }
#define LINEAR_SWIGLU(suffix, Format, type, batch)                                                                   \
  KERNEL_OF(BLOCK, 2, linear_swiglu_##suffix, const uint8_t* __restrict weight, /* [2, tiles, chunks, 4, bytes] */   \
            const float* __restrict x,                                          /* [hidden] */                       \
            const float* __restrict norm,                                       /* [hidden] */                       \
            const float* __restrict parts,                                      /* [hidden / NORM_PART] */           \
            type* __restrict y,                                                 /* [ffn_chunks, y_rows, CHUNK] */    \
            int32_t* __restrict saturated,                                      /* [1] */                            \
            int ffn, int hidden, int y_rows, float eps) {                                                            \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                           \
    const NormedRow<type> row{x, norm, parts, hidden, eps, block == 0 ? saturated : nullptr};                        \
    linear_decode<Format, batch>(row, Swiglu<type>{weight, y, saturated, ffn, hidden, y_rows}, block, grid_width()); \
  }
#define LINEAR_SUMMED(suffix, Format, type, batch)                                                                   \
  KERNEL_OF(BLOCK, 2, linear_summed_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */      \
            const type* __restrict x,                                           /* [chunks, x_rows, CHUNK] */        \
            float* __restrict y,                                                /* [out] */                          \
            float* __restrict parts,                                            /* [ceil(out / NORM_PART)] */        \
            int out, int in, int x_rows) {                                                                           \
    linear_decode<Format, batch>(ColumnRow<type>{x, x_rows}, Summed{weight, y, parts, out, in}, BLOCK_INDEX_AHEAD.x, \
                                 grid_width());                                                                      \
  }
#define LINEAR_DECODE(...)   \
  LINEAR_PLAIN(__VA_ARGS__)  \
  LINEAR_NORMED(__VA_ARGS__) \
  LINEAR_SWIGLU(__VA_ARGS__) \
  LINEAR_SUMMED(__VA_ARGS__)

LINEAR_DECODE(f16, Floats<half_t>, half_t, LINEAR_DECODE_F16_BATCH)
LINEAR_DECODE(bf16, Floats<bfloat_t>, bfloat_t, LINEAR_DECODE_BF16_BATCH)
LINEAR_DECODE(q2, Quant2, half_t, LINEAR_DECODE_Q2_BATCH)
LINEAR_DECODE(q3, Quant3, half_t, LINEAR_DECODE_Q3_BATCH)
LINEAR_DECODE(q4, Quant4, half_t, LINEAR_DECODE_Q4_BATCH)
LINEAR_DECODE(q5, Quant5, half_t, LINEAR_DECODE_Q5_BATCH)
LINEAR_DECODE(q6, Quant6, half_t, LINEAR_DECODE_Q6_BATCH)
LINEAR_DECODE(q8, Quant8, half_t, LINEAR_DECODE_Q8_BATCH)
LINEAR_DECODE(iq4, Levels4, half_t, LINEAR_DECODE_IQ4_BATCH)

LINEAR_NORMED_PAIR(q3_q4, Quant3, LINEAR_DECODE_Q3_BATCH, Quant4, LINEAR_DECODE_Q4_BATCH)
LINEAR_NORMED_PAIR(q3_q5, Quant3, LINEAR_DECODE_Q3_BATCH, Quant5, LINEAR_DECODE_Q5_BATCH)
LINEAR_NORMED_PAIR(q4_q6, Quant4, LINEAR_DECODE_Q4_BATCH, Quant6, LINEAR_DECODE_Q6_BATCH)
LINEAR_NORMED_PAIR(q5_q6, Quant5, LINEAR_DECODE_Q5_BATCH, Quant6, LINEAR_DECODE_Q6_BATCH)
