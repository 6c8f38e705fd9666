// Experts of one row on Hopper, in three launches with the bits of those that steps of more rows have
//
//   router_scores_normed   y[e] = sum_k weight[e][k] * norm(x)[k]: rms_norm and router_scores in one
//   experts_swiglu         y[i][n] = silu(gate[n] · norm(x)) * (up[n] · norm(x)) of the i-th expert that the row is
//                          sent to: send_columns, linear_experts and swiglu_sent_columns in one
//   experts_summed         y[n] += sum_i share[i] * (down of the i-th)[n] · x[i], and the sums of the squares of y
//                          with which the row's next norm begins: linear_experts and combine_experts in one
#include "forge/hopper/linear_decode.h"
#include "forge/route_wave.h"
#include "forge/swiglu.h"

namespace {
using namespace forge;
static_assert(GROUP_ROWS == NORM_PART, "a group writes one part");

// The sums of two rows of a group, lane / 4 and lane / 4 + 8, as their segments are added: by halves, the second once
// the first is complete.
struct Halves {
  float first[2] = {0.0f, 0.0f}, current[2] = {0.0f, 0.0f};
  int segment = 0;
};
// `done` chunks are in the sum: what it has goes to the segments that they end.
DEVICE void end_segments(Halves& halves, float (&sum)[4], int done, int chunks) {
  while (halves.segment < SEGMENTS && segment_end(chunks, halves.segment) <= done) {
    halves.segment++;
    UNROLL
    for (int i = 0; i < 2; i++) {
      halves.current[i] += sum[2 * i];
      if (halves.segment == HALF) {
        halves.first[i] = halves.current[i];
        halves.current[i] = 0.0f;
      }
    }
    UNROLL
    for (int i = 0; i < 4; i++) sum[i] = 0.0f;
  }
}

template <class F>
DEVICE typename F::Raw load_unit(const LaneUnit& unit) {
  return F::load(unit, [](const uint8_t* p, auto type) { return StreamLoad::of(p, type); });
}

// A block has sixteen rows of gate and of up of one expert, a wave the segment of its number of both.
template <class F, int BATCH>
DEVICE void experts_swiglu(const NormedRow<typename F::Element>& row, const uint8_t* weight, const Routing& by,
                           const float* scores, typename F::Element* y, int32_t* saturated, int ffn, int group,
                           int slot) {
  using T = typename F::Element;
  constexpr int APART = TILE_GROUPS * F::BYTES, ROW_BYTES = DECODE_PIECES * sizeof(Piece);
  SHARED(Piece, columns, (SEGMENTS * LINEAR_DECODE_CHUNKS * DECODE_PIECES));
  SHARED(float, parts, (2 * SEGMENTS * GROUP_ROWS));
  SHARED(Sent, sent, 1);
  const int lane = lane_id(), segment = wave_id(), chunks = row.in / CHUNK;
  const int count = chunks / SEGMENTS, batches = count / BATCH, first = segment * count;
  const size_t matrix = static_cast<size_t>(ffn / TILE_ROWS) * chunks * APART;

  // router_scores_normed, which this follows, let it begin when the row was there.
  Piece* const own = columns + segment * LINEAR_DECODE_CHUNKS * DECODE_PIECES;
  bring_row(row, own, first, count);
  wait_for_inputs();
  send(by, scores, sent[0]);
  const uint8_t* const expert = weight + 2 * matrix * sent[0].ids[slot];
  LaneUnit unit = lane_unit<F>(expert + unit_place<F>(group, first, chunks), lane);
  typename F::Raw raw[2][BATCH];
  int fetched = 0;
  // Batches of gate, then those of up.
  const auto fetch = [&](typename F::Raw(&to)[BATCH]) {
    UNROLL
    for (int d = 0; d < BATCH; d++) to[d] = load_unit<F>(unit_after(unit, d * APART));
    const size_t by = ++fetched == batches ? matrix - static_cast<size_t>(count - BATCH) * APART : BATCH * APART;
    unit = {unit.pieces + by, unit.scales + by, unit.high + by};
    // Not to be computed again at every load.
    asm volatile("" : "+l"(unit.pieces), "+l"(unit.scales), "+l"(unit.high));
  };
  fetch(raw[0]);
  fetch(raw[1]);
  let_next_begin();
  const uint32_t low = lds_address(own + lane / 8), high = lds_address(own + lane / 8 + 4);
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float* mine = parts + segment * GROUP_ROWS;
  int batch = 0;
  const auto compute = [&](const typename F::Raw(&from)[BATCH]) {
    UNROLL
    for (int d = 0; d < BATCH; d++) {
      const uint32_t place = (batch * BATCH + d) * ROW_BYTES;
      multiply_unit<F>(sum, from[d], low + place, high + place);
    }
    if (++batch < batches) return;
    batch = 0;
    if (lane % 4 == 0) {
      mine[lane / 4] = sum[0];
      mine[lane / 4 + 8] = sum[2];
    }
    mine += SEGMENTS * GROUP_ROWS;
    UNROLL
    for (int i = 0; i < 4; i++) sum[i] = 0.0f;
  };
  ROLLED
  for (int left = batches; left > 0; left--) {
    compute(raw[0]);
    if (left > 1) fetch(raw[0]);
    compute(raw[1]);
    if (left > 1) fetch(raw[1]);
  }
  block_sync();
  const int i = thread_id(), n = group * GROUP_ROWS + i;
  if (i >= GROUP_ROWS) return;
  const auto sum_of = [&](const float* set) {
    float halves[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
      halves[h] = 0.0f;
      UNROLL
      for (int s = 0; s < HALF; s++) halves[h] += set[(h * HALF + s) * GROUP_ROWS + i];
    }
    return (halves[0] + halves[1]) * F::SCALE;
  };
  store_column(y + static_cast<size_t>(slot) * ffn + n, silu(sum_of(parts)) * sum_of(parts + SEGMENTS * GROUP_ROWS),
               saturated);
}

// A block has sixteen rows of down of all experts that the row is sent to, a wave every eighth of them.
template <class F, int BATCH>
DEVICE void experts_summed(const uint8_t* weight, const typename F::Element* x, const Routing& by, const float* scores,
                           float* y, float* parts, int out, int in, int group) {
  using T = typename F::Element;
  constexpr int APART = TILE_GROUPS * F::BYTES, ROW_BYTES = DECODE_PIECES * sizeof(Piece);
  SHARED(Piece, columns, (WAVES * LINEAR_DECODE_CHUNKS * DECODE_PIECES));
  SHARED(float, made, MOST_USED_EXPERTS* GROUP_ROWS);
  SHARED(Sent, sent, 1);
  const int lane = lane_id(), chunks = in / CHUNK, used = by.used;
  const size_t matrix = static_cast<size_t>((out + TILE_ROWS - 1) / TILE_ROWS) * chunks * APART;
  typename F::Raw raw[2][BATCH];
  const auto unit_of = [&](int slot) {
    return lane_unit<F>(weight + matrix * sent[0].ids[slot] + unit_place<F>(group, 0, chunks), lane);
  };
  const auto fetch = [&](typename F::Raw(&to)[BATCH], const LaneUnit& from, int chunk) {
    UNROLL
    for (int d = 0; d < BATCH; d++) {
      if (chunk + d >= chunks) continue;
      const size_t at = static_cast<size_t>(chunk + d) * APART;
      to[d] = load_unit<F>({from.pieces + at, from.scales + at, from.high + at});
    }
  };
  // The scores were there when experts_swiglu, which this follows, let it begin.
  send(by, scores, sent[0]);
  LaneUnit unit = unit_of(min_of(wave_id(), used - 1));
  fetch(raw[0], unit, 0);
  fetch(raw[1], unit, BATCH);
  wait_for_inputs();
  let_next_begin();
  const int n = group * GROUP_ROWS + lane;
  const bool finishes = wave_id() == 0 && lane < GROUP_ROWS && n < out;
  const float held = finishes ? y[n] : 0.0f;
  Piece* const own = columns + wave_id() * LINEAR_DECODE_CHUNKS * DECODE_PIECES;
  const uint32_t low = lds_address(own + lane / 8), high = lds_address(own + lane / 8 + 4);
  ROLLED
  for (int slot = wave_id(); slot < used; slot += WAVES) {
    if (slot >= WAVES) {
      unit = unit_of(slot);
      fetch(raw[0], unit, 0);
      fetch(raw[1], unit, BATCH);
      __syncwarp();
    }
    for (int p = lane; p < chunks * DECODE_PIECES; p += WAVE) {
      fetch_piece(lds_address(own + p), x + static_cast<size_t>(slot) * in + p * PIECE);
    }
    fetch_group();
    fetch_wait<0>();
    __syncwarp();
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    Halves halves;
    end_segments(halves, sum, 0, chunks);
    const auto compute = [&](const typename F::Raw(&from)[BATCH], int chunk) {
      UNROLL
      for (int d = 0; d < BATCH; d++) {
        if (chunk + d >= chunks) continue;
        const uint32_t place = (chunk + d) * ROW_BYTES;
        multiply_unit<F>(sum, from[d], low + place, high + place);
        end_segments(halves, sum, chunk + d + 1, chunks);
      }
    };
    ROLLED
    for (int chunk = 0; chunk < chunks; chunk += 2 * BATCH) {
      compute(raw[0], chunk);
      fetch(raw[0], unit, chunk + 2 * BATCH);
      compute(raw[1], chunk + BATCH);
      fetch(raw[1], unit, chunk + 3 * BATCH);
    }
    if (lane % 4 == 0) {
      UNROLL
      for (int i = 0; i < 2; i++) {
        made[slot * GROUP_ROWS + lane / 4 + i * 8] = (halves.first[i] + halves.current[i]) * F::SCALE;
      }
    }
  }
  block_sync();
  if (wave_id() > 0) return;
  const float part = sum_of_squares([&](int i) {
    float sum = 0.0f;
    for (int slot = 0; slot < used; slot++) sum = multiply_add(sent[0].shares[slot], made[slot * GROUP_ROWS + i], sum);
    return n < out ? y[n] = held + sum : 0.0f;
  });
  if (lane == 0) parts[group] = part;
}
}  // namespace

// Grid: x = ceil(experts / ROUTER_ROWS), so that many multiprocessors bring the router. A wave asks for an expert's
// weights before it knows the row.
KERNEL_OF(BLOCK, 2, router_scores_normed, const float* __restrict weight,  // [experts, in]
          const float* __restrict x,                                       // [in]
          const float* __restrict norm,                                    // [in]
          const float* __restrict parts,                                   // [in / NORM_PART], see norm.h
          float* __restrict y,                                             // [experts]
          int experts, int in, float eps) {
  constexpr int AHEAD = 64;
  SHARED(float, row, ROUTER_MOST_HIDDEN);
  const int lane = lane_id(), expert = BLOCK_INDEX_AHEAD.x * ROUTER_ROWS + wave_id();
  const bool scores = wave_id() < ROUTER_ROWS && expert < experts;
  const float* own = weight + static_cast<size_t>(expert) * in;
  float left[AHEAD];
  const auto fetch = [&](int from) {
    UNROLL
    for (int j = 0; j < AHEAD; j++) left[j] = from + j * WAVE < in ? own[from + j * WAVE] : 0.0f;
  };
  if (scores) fetch(lane);
  wait_for_inputs();
  let_next_begin();
  const float by = inv_rms_of_parts(parts, in, eps);
  for (int i = 4 * thread_id(); i < in; i += 4 * BLOCK) {
    const auto values = load_aligned<Floats4>(x + i), factors = load_aligned<Floats4>(norm + i);
    UNROLL
    for (int j = 0; j < 4; j++) row[i + j] = values.f[j] * by * factors.f[j];
  }
  block_sync();
  if (!scores) return;
  float sum = 0.0f;
  for (int from = lane; from < in; from += AHEAD * WAVE) {
    if (from > lane) fetch(from);
    UNROLL
    for (int j = 0; j < AHEAD; j++) {
      if (from + j * WAVE < in) sum = multiply_add(left[j], row[from + j * WAVE], sum);
    }
  }
  sum = wave_sum(sum);
  if (lane == 0) y[expert] = sum;
}

// Grid: x = ffn / 16, y = used.
#define EXPERTS_SWIGLU(suffix, Format, type, batch)                                                            \
  KERNEL_OF(BLOCK, 3, experts_swiglu_##suffix,                                                                 \
            const uint8_t* __restrict weight, /* [experts, 2, tiles, chunks, 4, bytes] */                      \
            const float* __restrict x,        /* [hidden] */                                                   \
            const float* __restrict norm,     /* [hidden] */                                                   \
            const float* __restrict parts,    /* [hidden / NORM_PART], see norm.h */                           \
            const float* __restrict scores,   /* [experts] */                                                  \
            const float* __restrict bias,     /* [experts] */                                                  \
            type* __restrict y,               /* [used, ffn] */                                                \
            int32_t* __restrict saturated,    /* [1] */                                                        \
            int ffn, int hidden, int experts, int used, int scoring, int normalizes, float eps, float scale) { \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                                               \
    const bool counts = block.x == 0 && block.y == 0;                                                          \
    const NormedRow<type> row{x, norm, parts, hidden, eps, counts ? saturated : nullptr};                      \
    const Routing by{bias, experts, used, scoring, normalizes, scale};                                         \
    experts_swiglu<Format, batch>(row, weight, by, scores, y, saturated, ffn, block.x, block.y);               \
  }
// Grid: x = ceil(out / 16).
#define EXPERTS_SUMMED(suffix, Format, type, batch)                                               \
  KERNEL_OF(BLOCK, 1, experts_summed_##suffix,                                                    \
            const uint8_t* __restrict weight, /* [experts, tiles, chunks, 4, bytes] */            \
            const type* __restrict x,         /* [used, in] */                                    \
            const float* __restrict scores,   /* [experts] */                                     \
            const float* __restrict bias,     /* [experts] */                                     \
            float* __restrict y,              /* [out] */                                         \
            float* __restrict parts,          /* [ceil(out / NORM_PART)] */                       \
            int out, int in, int experts, int used, int scoring, int normalizes, float scale) {   \
    const Routing by{bias, experts, used, scoring, normalizes, scale};                            \
    experts_summed<Format, batch>(weight, x, by, scores, y, parts, out, in, BLOCK_INDEX_AHEAD.x); \
  }
// Chunks that a wave multiplies while as many are on their way: of experts_swiglu so few that three blocks find room,
// of experts_summed, of which a multiprocessor has one, as many as there is room for.
// `whole`: of which rows are whole multiples, in chunks a segment (experts-decode.ts).
#define EXPERTS_ONE(suffix, Format, type, whole, batch, all)                      \
  static_assert(whole % batch == 0, "rows that are let in are of whole batches"); \
  EXPERTS_SWIGLU(suffix, Format, type, batch)                                     \
  EXPERTS_SUMMED(suffix, Format, type, all)

EXPERTS_ONE(f16, Floats<half_t>, half_t, LINEAR_DECODE_F16_BATCH, 1, 3)
EXPERTS_ONE(bf16, Floats<bfloat_t>, bfloat_t, LINEAR_DECODE_BF16_BATCH, 1, 3)
EXPERTS_ONE(q2, Quant2, half_t, LINEAR_DECODE_Q2_BATCH, 2, 6)
EXPERTS_ONE(q3, Quant3, half_t, LINEAR_DECODE_Q3_BATCH, 2, 6)
EXPERTS_ONE(q4, Quant4, half_t, LINEAR_DECODE_Q4_BATCH, 2, 6)
EXPERTS_ONE(q5, Quant5, half_t, LINEAR_DECODE_Q5_BATCH, 2, 6)
EXPERTS_ONE(q6, Quant6, half_t, LINEAR_DECODE_Q6_BATCH, 2, 6)
EXPERTS_ONE(q8, Quant8, half_t, LINEAR_DECODE_Q8_BATCH, 2, 6)
EXPERTS_ONE(iq4, Levels4, half_t, LINEAR_DECODE_IQ4_BATCH, 2, 6)
