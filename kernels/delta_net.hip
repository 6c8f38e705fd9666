// delta_net: the recurrence of a gated delta net, one row after the other: state *= decay; state += k ⊗ beta (v - state
// k); y = state q / sqrt(dim)
//
// Row j of a head's state makes element j of what the head gives: a wave owns some of them, and goes through the slice
// with them. No row depends on how a sequence is cut into slices.
#include "forge/delta.h"

namespace {
using namespace forge;

// Inputs that a row of a slice adds to ROWS rows of a head's state.
template <int N, int ROWS>
struct Inputs {
  StateRow<N> q, k;
  float v[ROWS], alpha, beta;
};

template <int N>
DEVICE void delta_net(Dim3 block, const float* qkv, const float* beta, const float* alpha, const float* rate,
                      const float* bias, float* states, const float* replay, const int32_t* slices, float* y,
                      int key_heads, int value_heads, int gate_stride, int grouped) {
  constexpr int ROWS = DELTA_PART / WAVES;
  const StateSlice slice = state_slice(slices, block.z);
  // Value heads of a key head follow each other, and of each key head's their betas before their alphas; or neither.
  const int group = value_heads / key_heads;
  const int head = block.y, key_head = grouped ? head / group : head % key_heads;
  const int gate = grouped ? head + key_head * group : head;
  const int row = block.x * DELTA_PART + wave_id() * ROWS;
  const size_t size = static_cast<size_t>(N) * N;
  const float* old = states + (static_cast<size_t>(max_of(slice.source, 0)) * value_heads + head) * size + row * N;
  StateRow<N> state[ROWS];
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    if (slice.source == NO_STATE) {
      SIMD
      for (int e = 0; e < lane_elements(N); e++) state[r][e] = 0.0f;
    } else {
      load_row<N>(state[r], old + r * N);
    }
  }

  const int channels = (2 * key_heads + value_heads) * N;
  const float scale = 1.0f / sqrt_of(static_cast<float>(N));
  const float head_rate = rate[head], head_bias = bias[head];
  // Inputs of a row of the slice, counted from its first; before it, a replay row. They are loaded while the row before
  // it is computed.
  const auto bring = [&](int t, Inputs<N, ROWS>& in) {
    const float *columns, *beta_at, *alpha_at;
    if (t >= 0) {
      const size_t place = slice.first + t;
      columns = qkv + place * channels;
      beta_at = beta + place * gate_stride + gate;
      alpha_at = alpha + place * gate_stride + gate;
    } else {
      const size_t place = slice.replay_row + slice.replayed + t;
      columns = replay + place * delta_replay_columns(channels, value_heads) + channels;
      beta_at = columns + channels + head;
      alpha_at = beta_at + value_heads;
    }
    load_row<N>(in.q, columns + key_head * N);
    load_row<N>(in.k, columns + (key_heads + key_head) * N);
    const float* v = columns + (2 * key_heads + head) * N + row;
    UNROLL
    for (int r = 0; r < ROWS; r++) in.v[r] = v[r];
    in.alpha = *alpha_at;
    in.beta = *beta_at;
  };
  const auto store = [&] {
    if (slice.target == NO_STATE) return;
    float* next = states + (static_cast<size_t>(slice.target) * value_heads + head) * size + row * N;
    UNROLL
    for (int r = 0; r < ROWS; r++) store_row<N>(state[r], next + r * N);
  };
  Inputs<N, ROWS> now, ahead;
  bring(-slice.replayed, now);
  for (int t = -slice.replayed; t < slice.rows; t++) {
    if (t == slice.stored) store();
    if (t + 1 < slice.rows) bring(t + 1, ahead);
    const float decay = exp_of(head_rate * softplus(now.alpha + head_bias));
    const float share = 1.0f / (1.0f + exp_of(-now.beta));
    float given[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; r++) given[r] = decay_and_dot<N>(state[r], decay, now.k);
    UNROLL
    for (int r = 0; r < ROWS; r++) given[r] = share * (now.v[r] - wave_sum(given[r]));
    UNROLL
    for (int r = 0; r < ROWS; r++) given[r] = learn_and_dot<N>(state[r], given[r], now.k, now.q);
    if (t >= 0) {
      float* out = y + (static_cast<size_t>(slice.first + t) * value_heads + head) * N + row;
      give_sums(given, [&](int r, float sum) { out[r] = sum * scale; });
    }
    now = ahead;
  }
  if (slice.stored == slice.rows) store();
}
}  // namespace

// Grid: x = dim / DELTA_PART, y = value_heads, z = slices.
#define DELTA_NET(dim)                                                                                           \
  KERNEL(delta_net_d##dim, const float* __restrict qkv, /* [rows, 2 * key_heads + value_heads, dim] */           \
         const float* __restrict beta,                  /* [rows, value_heads], gate_stride apart */             \
         const float* __restrict alpha,                 /* the same */                                           \
         const float* __restrict rate,                  /* [value_heads], below zero */                          \
         const float* __restrict bias,                  /* [value_heads] */                                      \
         float* states,                                 /* [states, value_heads, dim, dim] */                    \
         const float* __restrict replay,                /* [replay_rows, delta_replay_columns] */                \
         const int32_t* __restrict slices,              /* [slices, SLICE_WORDS] */                              \
         float* __restrict y,                           /* [rows, value_heads, dim] */                           \
         int key_heads, int value_heads, int gate_stride, int grouped) {                                         \
    delta_net<dim>(BLOCK_INDEX, qkv, beta, alpha, rate, bias, states, replay, slices, y, key_heads, value_heads, \
                   gate_stride, grouped);                                                                        \
  }

DELTA_NET(32)
DELTA_NET(128)
