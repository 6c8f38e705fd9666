// mamba_scan: the recurrence of Mamba 2, one row after the other: state = e^(dt rate) state + dt x ⊗ b; y = (state c +
// skip x) silu(gate), dt = ln(1 + e^(dt + bias))
//
// Dao & Gu (2024). Row j of a head's state makes element j of what the head gives: a wave owns some of them, and goes
// through the slice with them. The block brings what the next rows of the slice need to shared memory while it computes
// the rows before them. No row depends on how a sequence is cut into slices.
#include "forge/delta.h"

namespace {
using namespace forge;

// Rows of a head's state that a wave owns at a time, and those of all waves.
constexpr int OWN = DELTA_PART / WAVES, ROWS = OWN < MAMBA_ROWS ? OWN : MAMBA_ROWS, PASS = WAVES * ROWS;
// Rows of a slice that the block brings at a time, and those whose sums a wave adds up together.
constexpr int BROUGHT = WAVE == 1 ? 1 : 8, TOGETHER = WAVE == 1 ? 1 : 4;

// A thread's share of what BROUGHT rows of a slice add to PASS rows of a head's state.
template <int N>
struct Share {
  static constexpr int COLUMNS = BROUGHT * N / BLOCK, PASSED = BROUGHT * PASS / BLOCK;
  static_assert(COLUMNS * BLOCK == BROUGHT * N && PASSED * BLOCK == BROUGHT * PASS, "whole shares");
  float b[COLUMNS], c[COLUMNS], x[PASSED], gate[PASSED], dt;
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

// The scan of PASS rows of a head's state, from `first` on, of which a wave may own none.
template <int N>
DEVICE void scan_pass(Dim3 block, int first, const float* xbc, const float* dt, const float* gate, const float* rate,
                      const float* bias, const float* skip, float* states, const int32_t* slices, float* y, int heads,
                      int dim, int groups, int stride) {
  SHARED(float, b, (2 * BROUGHT * N));
  SHARED(float, c, (2 * BROUGHT * N));
  SHARED(float, x, (2 * BROUGHT * PASS));
  SHARED(float, gates, (2 * BROUGHT * PASS));
  SHARED(float, steps, (2 * BROUGHT));
  SHARED(float, decays, (2 * BROUGHT));
  const StateSlice slice = state_slice(slices, block.z);
  const int end = slice.first + slice.rows;
  const int head = block.y, group = head / (heads / groups);
  const int inner = heads * dim, channels = inner + 2 * groups * N;
  const float head_rate = rate[head], head_bias = bias[head], head_skip = skip[head];

  // This thread's first elements of the rows that are brought next.
  const size_t of_columns = slice.first + thread_id() / N, of_pass = slice.first + thread_id() / PASS;
  const int own_row = first + thread_id() % PASS;
  const float* columns = xbc + of_columns * channels + inner + group * N + thread_id() % N;
  const float* x_at = xbc + of_pass * channels + head * dim + own_row;
  const float* gate_at = gate + of_pass * stride + head * dim + own_row;
  const float* dt_at = dt + static_cast<size_t>(slice.first + thread_id()) * stride + head;
  // `left` rows of the slice are to be brought.
  const auto fetch = [&](int left, Share<N>& share) {
    UNROLL
    for (int p = 0; p < Share<N>::COLUMNS; p++) {
      const int t = p * BLOCK / N;
      const float* at = columns + static_cast<size_t>(t) * channels + p * BLOCK % N;
      const bool is_any = thread_id() / N + t < left;
      share.b[p] = is_any ? at[0] : 0.0f;
      share.c[p] = is_any ? at[groups * N] : 0.0f;
    }
    UNROLL
    for (int p = 0; p < Share<N>::PASSED; p++) {
      const int t = p * BLOCK / PASS, r = p * BLOCK % PASS;
      const bool is_any = thread_id() / PASS + t < left && own_row + r < dim;
      share.x[p] = is_any ? x_at[static_cast<size_t>(t) * channels + r] : 0.0f;
      share.gate[p] = is_any ? gate_at[static_cast<size_t>(t) * stride + r] : 0.0f;
    }
    share.dt = thread_id() < min_of(BROUGHT, left) ? dt_at[0] : 0.0f;
    columns += static_cast<size_t>(BROUGHT) * channels;
    x_at += static_cast<size_t>(BROUGHT) * channels;
    gate_at += static_cast<size_t>(BROUGHT) * stride;
    dt_at += static_cast<size_t>(BROUGHT) * stride;
  };
  // To the first half of shared memory, or to the second while waves read the first.
  const auto put = [&](int half, const Share<N>& share) {
    SIMD
    for (int p = 0; p < Share<N>::COLUMNS; p++) {
      const int i = half * BROUGHT * N + p * BLOCK + thread_id();
      b[i] = share.b[p];
      c[i] = share.c[p];
    }
    SIMD
    for (int p = 0; p < Share<N>::PASSED; p++) {
      const int i = half * BROUGHT * PASS + p * BLOCK + thread_id();
      x[i] = share.x[p];
      gates[i] = silu(share.gate[p]);
    }
    if (thread_id() < BROUGHT) {
      const float step = step_of(share.dt + head_bias);
      steps[half * BROUGHT + thread_id()] = step;
      decays[half * BROUGHT + thread_id()] = exp_of(step * head_rate);
    }
  };
  Share<N> ahead;
  fetch(slice.rows, ahead);

  const int row = first + wave_id() * ROWS;
  const size_t size = static_cast<size_t>(dim) * N;
  const float* old =
      states + (static_cast<size_t>(max_of(slice.source, 0)) * heads + head) * size + static_cast<size_t>(row) * N;
  StateRow<N> state[ROWS];
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    if (slice.source == NO_STATE || row >= dim) {
      SIMD
      for (int e = 0; e < lane_elements(N); e++) state[r][e] = 0.0f;
    } else {
      load_row<N>(state[r], old + r * N);
    }
  }

  // `count` rows of the slice from t on, of which shared memory has the first at `at`.
  const auto advance = [&](auto count, int t, int at) {
    constexpr int COUNT = decltype(count)::value;
    float sums[COUNT * ROWS];
    UNROLL
    for (int k = 0; k < COUNT; k++) {
      StateRow<N> of_b, of_c;
      load_row<N>(of_b, b + (at + k) * N);
      load_row<N>(of_c, c + (at + k) * N);
      const float step = steps[at + k], decay = decays[at + k];
      UNROLL
      for (int r = 0; r < ROWS; r++) {
        decay_row<N>(state[r], decay);
        const float delta = x[(at + k) * PASS + wave_id() * ROWS + r] * step;
        sums[k * ROWS + r] = learn_and_dot<N>(state[r], delta, of_b, of_c);
      }
    }
    give_sums(sums, [&](int i, float sum) {
      const int k = i / ROWS, r = i % ROWS, from = (at + k) * PASS + wave_id() * ROWS + r;
      y[static_cast<size_t>(t + k) * inner + head * dim + row + r] =
          multiply_add(head_skip, x[from], sum) * gates[from];
    });
  };
  put(0, ahead);
  block_sync();
  int half = 0;
  for (int from = slice.first; from < end; from += BROUGHT) {
    const int count = min_of(BROUGHT, end - from);
    if (from + BROUGHT < end) fetch(end - from - BROUGHT, ahead);
    if (row < dim) {
      int k = 0;
      ROLLED
      for (; k + TOGETHER <= count; k += TOGETHER) advance(Constant<TOGETHER>{}, from + k, half * BROUGHT + k);
      ROLLED
      for (; k < count; k++) advance(Constant<1>{}, from + k, half * BROUGHT + k);
    }
    half = 1 - half;
    if (from + BROUGHT < end) put(half, ahead);
    block_sync();
  }

  if (row >= dim) return;
  float* next = states + (static_cast<size_t>(slice.target) * heads + head) * size + static_cast<size_t>(row) * N;
  UNROLL
  for (int r = 0; r < ROWS; r++) store_row<N>(state[r], next + r * N);
}

// A head's rows need not fill its last block.
template <int N, class... Rest>
DEVICE void mamba_scan(Dim3 block, int dim, Rest... rest) {
  const int first = block.x * DELTA_PART, end = min_of(dim, first + DELTA_PART);
  for (int row = first; row < end; row += PASS) scan_pass<N>(block, row, rest...);
}
}  // namespace

// dim is a multiple of MAMBA_ROWS. Grid: x = ceil(dim / DELTA_PART), y = heads, z = slices.
#define MAMBA_SCAN(n, blocks)                                                                                        \
  KERNEL_RESIDENT(blocks, mamba_scan_n##n,                                                                           \
                  const float* __restrict xbc,      /* [rows, heads * dim + 2 * groups * n]: x, b and c */           \
                  const float* __restrict dt,       /* [rows, heads], stride apart */                                \
                  const float* __restrict gate,     /* [rows, heads * dim], stride apart */                          \
                  const float* __restrict rate,     /* [heads], below zero */                                        \
                  const float* __restrict bias,     /* [heads] */                                                    \
                  const float* __restrict skip,     /* [heads] */                                                    \
                  float* states,                    /* [states, heads, dim, n] */                                    \
                  const int32_t* __restrict slices, /* [slices, SLICE_WORDS] */                                      \
                  float* __restrict y,              /* [rows, heads * dim] */                                        \
                  int heads, int dim, int groups, int stride) {                                                      \
    mamba_scan<n>(BLOCK_INDEX, dim, xbc, dt, gate, rate, bias, skip, states, slices, y, heads, dim, groups, stride); \
  }

MAMBA_SCAN(32, 3)
MAMBA_SCAN(64, 3)
MAMBA_SCAN(128, 3)
MAMBA_SCAN(256, 2)
