// linear_normed of q, k and v of one row, which leaves no launch to turn them: queries in place, keys and values into
// the cache, with the bits of linear_normed and rope_kv_append
//
// Pairs that are rotated are neighbours, so both are of one group of sixteen outputs.
#include "forge/hopper/linear_decode.h"
#include "forge/rope_append.h"

namespace {
using namespace forge;

// Outputs of a matrix, the first of which is output `first` of the row.
struct Rotated {
  static constexpr bool IS_PAIR = false;
  // RoPE factors of an output, and its destination unless it is a query.
  struct Held {
    bool rotated;
    float cosine, sine;
    half_t* cached;
  };
  const uint8_t* weight;
  const float* bias;  // null: none
  int out, in, first;
  const int32_t *row_position, *row_slot, *slots;
  int slot_words;
  RotatedRow<half_t> row;
};
DEVICE void prepare(Rotated& job) {
  job.row.position = *job.row_position;
  job.row.block_table = block_table_of(job.slots, *job.row_slot, job.slot_words);
}
DEVICE Rotated::Held held_of(const Rotated& job, int own) {
  const auto& row = job.row;
  const int n = job.first + own, head = n / row.head_dim, e = n % row.head_dim;
  Rotated::Held held{head < row.heads + row.kv_heads && e < row.rotary, 0.0f, 0.0f, nullptr};
  if (held.rotated) {
    const size_t at = static_cast<size_t>(row.position) * (row.rotary / 2) + e / 2;
    held.cosine = row.cosine[at];
    held.sine = row.sine[at];
  }
  if (head >= row.heads) held.cached = cached(row, head) + e;
  return held;
}
template <class Sums>
DEVICE void finish_group(const Rotated& job, int group, const Rotated::Held& held, Sums sums) {
  const int i = lane_id(), own = group * GROUP_ROWS + i;
  const bool is_output = i < GROUP_ROWS && own < job.out;
  float value = is_output ? sums(i) : 0.0f;
  if (is_output && job.bias) value += job.bias[job.first + own];
  const float other = shuffle_xor(value, 1);
  if (!is_output) return;
  // As rope.h does it.
  if (held.rotated) {
    value = i % 2 == 0 ? multiply_add(value, held.cosine, -(other * held.sine))
                       : multiply_add(other, held.sine, value * held.cosine);
  }
  if (held.cached) {
    *held.cached = to_half(value);
  } else {
    job.row.vectors[job.first + own] = value;
  }
}
}  // namespace

#define ROTATED_INPUTS                                                                                             \
  const float *__restrict x,         /* [in] */                                                                    \
      const float *__restrict norm,  /* [in] */                                                                    \
      const float *__restrict parts, /* [in / NORM_PART], see norm.h */                                            \
      const float *__restrict bias,  /* [heads + 2 * kv_heads, head_dim] */                                        \
      float *__restrict qkv,         /* the same */                                                                \
      int32_t *__restrict saturated, /* [1] */                                                                     \
      half_t *__restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                           \
      half_t *__restrict v_cache,    /* the same */                                                                \
      const float *__restrict cosine, const float *__restrict sine,               /* [max_position, rotary / 2] */ \
      const int32_t *__restrict row_position, const int32_t *__restrict row_slot, /* [1] */                        \
      const int32_t *__restrict slots,                                            /* [slots, slot_words] */        \
      int slot_words, int heads, int kv_heads, int head_dim, int rotary
#define ROTATED_ROW                                                                     \
  const RotatedRow<half_t> rotated {                                                    \
    qkv, cosine, sine, k_cache, v_cache, slots, 0, heads, kv_heads, head_dim, rotary, 1 \
  }
#define ROTATED_PART(weight, out, first) \
  Rotated { weight, biased ? bias : nullptr, out, in, first, row_position, row_slot, slots, slot_words, rotated }

// Grid: x = ceil(out / 16), at most LINEAR_DECODE_BLOCKS.
#define LINEAR_ROTATED(suffix, Format, type, batch)                                                              \
  KERNEL_OF(BLOCK, 2, linear_rotated_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */ \
            ROTATED_INPUTS, int first, int out, int in, int biased, float eps) {                                 \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                       \
    const NormedRow<type> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                        \
    ROTATED_ROW;                                                                                                 \
    linear_decode<Format, batch>(row, ROTATED_PART(weight, out, first), block, grid_width());                    \
  }
// Two matrices, below each other but for their formats: blocks_0 blocks share the first.
#define LINEAR_ROTATED_PAIR(suffix, First, first_batch, Second, second_batch)                                        \
  KERNEL_OF(BLOCK, 2, linear_rotated_##suffix, const uint8_t* __restrict weight_0, /* [tiles_0, chunks, 4, bytes] */ \
            const uint8_t* __restrict weight_1, ROTATED_INPUTS, int out_0, int out_1, int in, int blocks_0,          \
            int biased, float eps) {                                                                                 \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                           \
    const NormedRow<half_t> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                          \
    ROTATED_ROW;                                                                                                     \
    linear_decode_pair<First, first_batch, Second, second_batch>(                                                    \
        row, ROTATED_PART(weight_0, out_0, 0), ROTATED_PART(weight_1, out_1, out_0), block, blocks_0, grid_width()); \
  }

LINEAR_ROTATED(f16, Floats<half_t>, half_t, LINEAR_DECODE_F16_BATCH)
LINEAR_ROTATED(bf16, Floats<bfloat_t>, bfloat_t, LINEAR_DECODE_BF16_BATCH)
LINEAR_ROTATED(q2, Quant2, half_t, LINEAR_DECODE_Q2_BATCH)
LINEAR_ROTATED(q3, Quant3, half_t, LINEAR_DECODE_Q3_BATCH)
LINEAR_ROTATED(q4, Quant4, half_t, LINEAR_DECODE_Q4_BATCH)
LINEAR_ROTATED(q5, Quant5, half_t, LINEAR_DECODE_Q5_BATCH)
LINEAR_ROTATED(q6, Quant6, half_t, LINEAR_DECODE_Q6_BATCH)
LINEAR_ROTATED(q8, Quant8, half_t, LINEAR_DECODE_Q8_BATCH)
LINEAR_ROTATED(iq4, Levels4, half_t, LINEAR_DECODE_IQ4_BATCH)

LINEAR_ROTATED_PAIR(q3_q4, Quant3, LINEAR_DECODE_Q3_BATCH, Quant4, LINEAR_DECODE_Q4_BATCH)
LINEAR_ROTATED_PAIR(q3_q5, Quant3, LINEAR_DECODE_Q3_BATCH, Quant5, LINEAR_DECODE_Q5_BATCH)
LINEAR_ROTATED_PAIR(q4_q6, Quant4, LINEAR_DECODE_Q4_BATCH, Quant6, LINEAR_DECODE_Q6_BATCH)
LINEAR_ROTATED_PAIR(q5_q6, Quant5, LINEAR_DECODE_Q5_BATCH, Quant6, LINEAR_DECODE_Q6_BATCH)
