// mamba_scan: the recurrence of Mamba 2, one row after the other: state = e^(dt rate) state + dt x ⊗ b; y = (state c +
// skip x) silu(gate), dt = ln(1 + e^(dt + bias))
//
// Dao & Gu (2024). Row j of a head's state makes element j of what the head gives: a wave owns some of them, and goes
// through the slice with them. No row depends on how a sequence is cut into slices.
#include "forge/delta.h"

namespace {
using namespace forge;

// Inputs that a row of a slice adds to ROWS rows of a head's state.
template <int N, int ROWS>
struct Inputs {
  StateRow<N> b, c;
  float x[ROWS], gate[ROWS], dt;
};

// ln(1 + e^x) as a factor: below zero the sum with 1 loses most of e^x, which the quotient makes up for (Kahan).
DEVICE float step_of(float x) {
  if (x > 20.0f) return x;
  const float power = exp_of(x), sum = 1.0f + power;
  return sum == 1.0f ? power : log_of(sum) * (power / (sum - 1.0f));
}

// row *= decay
template <int N>
DEVICE void decay_row(float* row, float decay) {
  SIMD
  for (int e = 0; e < lane_elements(N); e++) row[e] *= decay;
}

// The scan of ROWS rows of a head's state, from `row` on.
template <int N, int ROWS>
DEVICE void scan_rows(Dim3 block, int row, const float* xbc, const float* dt, const float* gate, const float* rate,
                      const float* bias, const float* skip, float* states, const int32_t* slices, float* y, int heads,
                      int dim, int groups, int stride) {
  const StateSlice slice = state_slice(slices, block.z);
  const int head = block.y, group = head / (heads / groups);
  const size_t size = static_cast<size_t>(dim) * N;
  const float* old =
      states + (static_cast<size_t>(max_of(slice.source, 0)) * heads + head) * size + static_cast<size_t>(row) * N;
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

  const int inner = heads * dim, channels = inner + 2 * groups * N;
  const float head_rate = rate[head], head_bias = bias[head], head_skip = skip[head];
  // A row's inputs are loaded while the row before it is computed.
  const auto bring = [&](int t, Inputs<N, ROWS>& in) {
    const float* columns = xbc + static_cast<size_t>(t) * channels;
    load_row<N>(in.b, columns + inner + group * N);
    load_row<N>(in.c, columns + inner + (groups + group) * N);
    const float* x = columns + head * dim + row;
    const float* z = gate + static_cast<size_t>(t) * stride + head * dim + row;
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      in.x[r] = x[r];
      in.gate[r] = z[r];
    }
    in.dt = dt[static_cast<size_t>(t) * stride + head];
  };
  const int end = slice.first + slice.rows;
  Inputs<N, ROWS> now, ahead;
  bring(slice.first, now);
  for (int t = slice.first; t < end; t++) {
    if (t + 1 < end) bring(t + 1, ahead);
    const float step = step_of(now.dt + head_bias), decay = exp_of(step * head_rate);
    float given[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      decay_row<N>(state[r], decay);
      given[r] = learn_and_dot<N>(state[r], now.x[r] * step, now.b, now.c);
    }
    float* out = y + static_cast<size_t>(t) * inner + head * dim + row;
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      const float sum = wave_sum(given[r]);
      if (WAVE == 1 || lane_id() == r) out[r] = multiply_add(head_skip, now.x[r], sum) * silu(now.gate[r]);
    }
    now = ahead;
  }

  float* next = states + (static_cast<size_t>(slice.target) * heads + head) * size + static_cast<size_t>(row) * N;
  UNROLL
  for (int r = 0; r < ROWS; r++) store_row<N>(state[r], next + r * N);
}

// A head's rows need not fill its last block.
template <int N, class... Rest>
DEVICE void mamba_scan(Dim3 block, int dim, Rest... rest) {
  constexpr int OWN = DELTA_PART / WAVES, ROWS = OWN < MAMBA_ROWS ? OWN : MAMBA_ROWS;
  const int first = block.x * DELTA_PART + wave_id() * OWN, end = min_of(dim, first + OWN);
  for (int row = first; row < end; row += ROWS) scan_rows<N, ROWS>(block, row, rest...);
}
}  // namespace

// dim is a multiple of MAMBA_ROWS. Grid: x = ceil(dim / DELTA_PART), y = heads, z = slices.
#define MAMBA_SCAN(n)                                                                                                \
  KERNEL(mamba_scan_n##n, const float* __restrict xbc, /* [rows, heads * dim + 2 * groups * n]: x, b and c */        \
         const float* __restrict dt,                   /* [rows, heads], stride apart */                             \
         const float* __restrict gate,                 /* [rows, heads * dim], stride apart */                       \
         const float* __restrict rate,                 /* [heads], below zero */                                     \
         const float* __restrict bias,                 /* [heads] */                                                 \
         const float* __restrict skip,                 /* [heads] */                                                 \
         float* states,                                /* [states, heads, dim, n] */                                 \
         const int32_t* __restrict slices,             /* [slices, SLICE_WORDS] */                                   \
         float* __restrict y,                          /* [rows, heads * dim] */                                     \
         int heads, int dim, int groups, int stride) {                                                               \
    mamba_scan<n>(BLOCK_INDEX, dim, xbc, dt, gate, rate, bias, skip, states, slices, y, heads, dim, groups, stride); \
  }

MAMBA_SCAN(32)
MAMBA_SCAN(64)
MAMBA_SCAN(128)
MAMBA_SCAN(256)
