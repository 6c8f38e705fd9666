// linear_normed of q, k and v of one row, which leaves no launch to turn them: queries in place, keys and values into
// the cache, with the bits of linear_normed, bias_add and rope_kv_append or norm_rope_kv_append
//
//   linear_turned   pairs that are turned are neighbours, in one group of sixteen outputs: each group turns its own
//   linear_headed   pairs are of any groups of a head, and its norm is of all: the wave that ends the last group of a
//                   head turns it
#include "forge/last_wave.h"
#include "forge/linear_one.h"
#include "forge/rope_append.h"

namespace {
using namespace forge;

// Outputs of a matrix, the first of which is output `first` of the row.
struct Heads {
  static constexpr bool IS_PAIR = false;
  const uint8_t* weight;
  const float* bias;  // null: none
  int out, in, first;
  const int32_t *row_position, *row_slot, *slots;
  int slot_words;
  TurnedRow<half_t> row;
};
DEVICE void ask_for_row(Heads& job) {
  job.row.position = *job.row_position;
  job.row.block_table = block_table_of(job.slots, *job.row_slot, job.slot_words);
}
DEVICE int head_of(const Heads& job, int n) { return n / job.row.head_dim; }
DEVICE bool is_query(const Heads& job, int head) { return head < job.row.heads; }
DEVICE bool is_value(const Heads& job, int head) { return head >= job.row.heads + job.row.kv_heads; }

// What an output is turned by, and where it goes if it is no query.
struct Turn {
  bool turned;
  float cosine, sine;
  half_t* cached;
};
struct Turned : Heads {
  using Held = Turn;
};
DEVICE void prepare(Turned& job) { ask_for_row(job); }
DEVICE Turn held_of(const Turned& job, int n) {
  const auto& row = job.row;
  n += job.first;
  const int head = head_of(job, n), e = n % row.head_dim;
  Turn turn{!is_value(job, head) && e < row.rotary, 0.0f, 0.0f, nullptr};
  if (turn.turned) {
    const size_t at = static_cast<size_t>(row.position) * (row.rotary / 2) + e / 2;
    turn.cosine = row.cosine[at];
    turn.sine = row.sine[at];
  }
  if (!is_query(job, head)) turn.cached = cached(row, head) + e;
  return turn;
}
template <class Sums>
DEVICE void finish_group(const Turned& job, int group, const Turn& turn, Sums sums) {
  const int i = lane_id(), own = group * GROUP_ROWS + i;
  const bool is_output = i < GROUP_ROWS && own < job.out;
  float value = is_output ? sums(i) : 0.0f;
  if (is_output && job.bias) value += job.bias[job.first + own];
  const float other = shuffle_xor(value, 1);
  if (!is_output) return;
  if (turn.turned) {
    value = i % 2 == 0 ? multiply_add(value, turn.cosine, -(other * turn.sine))
                       : multiply_add(other, turn.sine, value * turn.cosine);
  }
  if (turn.cached) {
    *turn.cached = to_half(value);
  } else {
    job.row.vectors[job.first + own] = value;
  }
}

struct Nothing {};
struct Headed : Heads {
  using Held = Nothing;
  const float *query_weight, *key_weight;  // null: no norm
  float eps;
  int32_t* arrivals;
};
DEVICE void prepare(Headed& job) { ask_for_row(job); }
DEVICE Nothing held_of(const Headed&, int) { return {}; }
template <class Sums>
DEVICE void finish_group(const Headed& job, int group, Nothing, Sums sums) {
  const int i = lane_id(), own = group * GROUP_ROWS + i, n = job.first + own;
  const int head = head_of(job, job.first + group * GROUP_ROWS);
  if (i < GROUP_ROWS) {
    const float value = job.bias ? sums(i) + job.bias[n] : sums(i);
    if (is_value(job, head)) {
      cached(job.row, head)[n % job.row.head_dim] = to_half(value);
    } else {
      job.row.vectors[n] = value;
    }
  }
  if (is_value(job, head) || !is_last_wave(job.arrivals + head, job.row.head_dim / GROUP_ROWS)) return;
  TurnedRow<half_t> row = job.row;
  row.cosine += static_cast<size_t>(row.position) * (row.rotary / 2);
  row.sine += static_cast<size_t>(row.position) * (row.rotary / 2);
  turn_head(row, head, is_query(job, head) ? job.query_weight : job.key_weight, job.eps, [](TurnedRow<half_t>&) {});
}
}  // namespace

// Grid: x = ceil(out / 16), at most LINEAR_ONE_BLOCKS.
#define LINEAR_HEADS(suffix, Format, type, batch)                                                                      \
  KERNEL_OF(BLOCK, 2, linear_turned_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */        \
            const float* __restrict x,                                          /* [in] */                             \
            const float* __restrict norm,                                       /* [in] */                             \
            const float* __restrict parts,                                      /* [in / NORM_PART], see norm.h */     \
            const float* __restrict bias,                                       /* [(heads + 2 * kv_heads) * head_dim] */ \
            float* __restrict qkv,                                              /* [heads + 2 * kv_heads, head_dim] */ \
            int32_t* __restrict saturated,                                      /* [1] */                              \
            half_t* __restrict k_cache, /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim] */                            \
            half_t* __restrict v_cache, /* the same */                                                                 \
            const float* __restrict cosine, const float* __restrict sine, /* [max_position, rotary / 2] */             \
            const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [1] */                      \
            const int32_t* __restrict slots,                                            /* [slots, slot_words] */      \
            int slot_words, int heads, int kv_heads, int head_dim, int rotary, int first, int out, int in,             \
            int biased, float eps) {                                                                                   \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                             \
    const NormedRow<type> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                              \
    const TurnedRow<half_t> heads_row{qkv, cosine, sine, k_cache, v_cache, slots, 0, heads, kv_heads, head_dim,        \
                                      rotary, 1};                                                                      \
    const Turned job{{weight, biased ? bias : nullptr, out, in, first, row_position, row_slot, slots, slot_words,      \
                      heads_row}};                                                                                     \
    linear_one<Format, batch>(row, job, block, grid_width());                                                          \
  }                                                                                                                    \
  KERNEL_OF(BLOCK, 2, linear_headed_##suffix, const uint8_t* __restrict weight, const float* __restrict x,             \
            const float* __restrict norm, const float* __restrict parts, const float* __restrict bias,                 \
            float* __restrict qkv, int32_t* __restrict saturated, half_t* __restrict k_cache,                          \
            half_t* __restrict v_cache, const float* __restrict cosine, const float* __restrict sine,                  \
            const float* __restrict query_weight, const float* __restrict key_weight, /* [head_dim] */                 \
            int32_t* __restrict arrivals,                                             /* [heads + kv_heads] */         \
            const int32_t* __restrict row_position, const int32_t* __restrict row_slot,                                \
            const int32_t* __restrict slots, int slot_words, int heads, int kv_heads, int head_dim, int rotary,        \
            int adjacent, int first, int out, int in, int biased, int normed, float eps, float head_eps) {             \
    const int block = BLOCK_INDEX_AHEAD.x;                                                                             \
    const NormedRow<type> row{x, norm, parts, in, eps, block == 0 ? saturated : nullptr};                              \
    const TurnedRow<half_t> heads_row{qkv, cosine, sine, k_cache, v_cache, slots, 0, heads, kv_heads, head_dim,        \
                                      rotary, adjacent};                                                               \
    const Headed job{{weight, biased ? bias : nullptr, out, in, first, row_position, row_slot, slots, slot_words,      \
                      heads_row},                                                                                      \
                     normed ? query_weight : nullptr, normed ? key_weight : nullptr, head_eps, arrivals};              \
    linear_one<Format, batch>(row, job, block, grid_width());                                                          \
  }

LINEAR_HEADS(f16, Floats<half_t>, half_t, LINEAR_ONE_F16_BATCH)
LINEAR_HEADS(bf16, Floats<bfloat_t>, bfloat_t, LINEAR_ONE_BF16_BATCH)
LINEAR_HEADS(q2, Quant2, half_t, LINEAR_ONE_Q2_BATCH)
LINEAR_HEADS(q3, Quant3, half_t, LINEAR_ONE_Q3_BATCH)
LINEAR_HEADS(q4, Quant4, half_t, LINEAR_ONE_Q4_BATCH)
LINEAR_HEADS(q5, Quant5, half_t, LINEAR_ONE_Q5_BATCH)
LINEAR_HEADS(q6, Quant6, half_t, LINEAR_ONE_Q6_BATCH)
LINEAR_HEADS(q8, Quant8, half_t, LINEAR_ONE_Q8_BATCH)
LINEAR_HEADS(iq4, Levels4, half_t, LINEAR_ONE_IQ4_BATCH)
