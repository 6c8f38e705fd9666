// Experts of one row on Hopper, in three launches with the bits of those that steps of more rows have
//
//   route_normed           rms_norm, router_scores and route_experts in one
//   experts_swiglu         y[i][n] = silu(gate[n] · norm(x)) * (up[n] · norm(x)) of the i-th expert that the row is
//                          sent to: send_columns, linear_experts and swiglu_sent_columns in one
//   experts_summed         y[n] += sum_i share[i] * (down of the i-th)[n] · x[i], and the sums of the squares of y, which
//                          the row's norm begins with: linear_experts and combine_experts in one
#include "forge/linear_one.h"
#include "forge/route.h"
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

// route.h's choice with its bits by one wave, which waits for no other: a lane has every 32nd expert, PER_LANE of them.
template <int PER_LANE>
DEVICE void route_by_wave(const Routing& by, const float* scores, int32_t* ids, float* weights) {
  SHARED(float, chosen, MOST_USED_EXPERTS);
  const int lane = lane_id();
  float values[PER_LANE], largest = LOWEST;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const int e = k * WAVE + lane;
    values[k] = e < by.experts ? scores[e] : LOWEST;
    largest = max_of(largest, values[k]);
  }
  largest = wave_max(largest);
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const float score = values[k];
    if (by.scoring == ROUTE_SIGMOID) values[k] = 1.0f / (1.0f + exp_of(-score));
    if (by.scoring == ROUTE_SOFTMAX) values[k] = k * WAVE + lane < by.experts ? exp_of(score - largest) : 0.0f;
  }
  if (by.scoring == ROUTE_SOFTMAX) {
    // As a block's threads add them: each those a block apart, then a wave's, then those of the waves in order.
    float sum = 0.0f;
    UNROLL
    for (int wave = 0; wave < WAVES; wave++) {
      float own = 0.0f;
      UNROLL
      for (int k = wave; k < PER_LANE; k += WAVES) own += values[k];
      if (wave < PER_LANE) sum += wave_sum(own);
    }
    UNROLL
    for (int k = 0; k < PER_LANE; k++) values[k] /= sum;
  }
  uint32_t keys[PER_LANE], taken = 0;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const int e = k * WAVE + lane;
    keys[k] = e < by.experts ? static_cast<uint32_t>(ordered(values[k] + by.bias[e])) ^ 0x80000000u : 0;
  }
  ROLLED
  for (int i = 0; i < by.used; i++) {
    uint32_t best = 0;
    UNROLL
    for (int k = 0; k < PER_LANE; k++) best = max_of(best, keys[k]);
    best = __reduce_max_sync(0xffffffffu, best);
    uint32_t id = MOST_EXPERTS;
    UNROLL
    for (int k = PER_LANE - 1; k >= 0; k--) {
      if (keys[k] == best && (taken >> k & 1) == 0) id = k * WAVE + lane;
    }
    id = __reduce_min_sync(0xffffffffu, id);
    UNROLL
    for (int k = 0; k < PER_LANE; k++) {
      if (id != k * WAVE + lane) continue;
      taken |= 1u << k;
      keys[k] = 0;
    }
  }
  int before = 0;
  UNROLL
  for (int k = 0; k < PER_LANE; k++) {
    const bool is_taken = (taken >> k & 1) != 0;
    const uint32_t lanes = __ballot_sync(0xffffffffu, is_taken);
    const int place = before + __popc(lanes & ((1u << lane) - 1));
    before += __popc(lanes);
    if (!is_taken) continue;
    ids[place] = k * WAVE + lane;
    chosen[place] = values[k];
  }
  __syncwarp();
  share_out(by, chosen + 0, weights, lane, WAVE);
}

// A block has sixteen rows of gate and of up of one expert, a wave the segment of its number of both.
template <class F, int BATCH>
DEVICE void experts_swiglu(const NormedRow<typename F::Element>& row, const uint8_t* weight, const int32_t* ids,
                           typename F::Element* y, int32_t* saturated, int ffn, int group, int slot) {
  using T = typename F::Element;
  constexpr int APART = TILE_GROUPS * F::BYTES, ROW_BYTES = ONE_PIECES * sizeof(Piece);
  SHARED(Piece, columns, (SEGMENTS * LINEAR_ONE_CHUNKS * ONE_PIECES));
  SHARED(float, parts, (2 * SEGMENTS * GROUP_ROWS));
  const int lane = lane_id(), segment = wave_id(), chunks = row.in / CHUNK;
  const int count = chunks / SEGMENTS, batches = count / BATCH, first = segment * count;
  const size_t matrix = static_cast<size_t>(ffn / TILE_ROWS) * chunks * APART;

  // route_normed, which this follows, let it begin when the row was there.
  Piece* const own = columns + segment * LINEAR_ONE_CHUNKS * ONE_PIECES;
  bring_row(row, own, first, count);
  wait_for_inputs();
  const uint8_t* const expert = weight + 2 * matrix * ids[slot];
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
      uint32_t b[2][4];
      load_columns(b[0], low + place);
      load_columns(b[1], high + place);
      UnitFragments a;
      F::unpack(a, from[d]);
      UNROLL
      for (int s = 0; s < STEPS; s++) multiply_few<T>(sum, a.parts[s], b[s / 2][s % 2 * 2], b[s / 2][s % 2 * 2 + 1]);
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
DEVICE void experts_summed(const uint8_t* weight, const typename F::Element* x, const int32_t* ids,
                           const float* shares, float* y, float* parts, int out, int in, int used, int group) {
  using T = typename F::Element;
  constexpr int APART = TILE_GROUPS * F::BYTES, ROW_BYTES = ONE_PIECES * sizeof(Piece);
  SHARED(Piece, columns, (WAVES * LINEAR_ONE_CHUNKS * ONE_PIECES));
  SHARED(float, made, MOST_USED_EXPERTS* GROUP_ROWS);
  const int lane = lane_id(), chunks = in / CHUNK;
  const size_t matrix = static_cast<size_t>((out + TILE_ROWS - 1) / TILE_ROWS) * chunks * APART;
  typename F::Raw raw[2][BATCH];
  const auto unit_of = [&](int slot) {
    return lane_unit<F>(weight + matrix * ids[slot] + unit_place<F>(group, 0, chunks), lane);
  };
  const auto fetch = [&](typename F::Raw(&to)[BATCH], const LaneUnit& from, int chunk) {
    UNROLL
    for (int d = 0; d < BATCH; d++) {
      if (chunk + d >= chunks) continue;
      const size_t at = static_cast<size_t>(chunk + d) * APART;
      to[d] = load_unit<F>({from.pieces + at, from.scales + at, from.high + at});
    }
  };
  // Who the row is sent to was there when experts_swiglu, which this follows, let it begin.
  LaneUnit unit = unit_of(min_of(wave_id(), used - 1));
  fetch(raw[0], unit, 0);
  fetch(raw[1], unit, BATCH);
  wait_for_inputs();
  let_next_begin();
  const int n = group * GROUP_ROWS + lane;
  const bool finishes = wave_id() == 0 && lane < GROUP_ROWS && n < out;
  const float held = finishes ? y[n] : 0.0f;
  Piece* const own = columns + wave_id() * LINEAR_ONE_CHUNKS * ONE_PIECES;
  const uint32_t low = lds_address(own + lane / 8), high = lds_address(own + lane / 8 + 4);
  ROLLED
  for (int slot = wave_id(); slot < used; slot += WAVES) {
    if (slot >= WAVES) {
      unit = unit_of(slot);
      fetch(raw[0], unit, 0);
      fetch(raw[1], unit, BATCH);
      __syncwarp();
    }
    for (int p = lane; p < chunks * ONE_PIECES; p += WAVE) {
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
        uint32_t b[2][4];
        load_columns(b[0], low + place);
        load_columns(b[1], high + place);
        UnitFragments a;
        F::unpack(a, from[d]);
        UNROLL
        for (int s = 0; s < STEPS; s++) multiply_few<T>(sum, a.parts[s], b[s / 2][s % 2 * 2], b[s / 2][s % 2 * 2 + 1]);
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
    for (int slot = 0; slot < used; slot++) sum = multiply_add(shares[slot], made[slot * GROUP_ROWS + i], sum);
    return n < out ? y[n] = held + sum : 0.0f;
  });
  if (lane == 0) parts[group] = part;
}
}  // namespace

// Grid: x = ROUTE_BLOCKS, a cluster. A wave has every 64th expert, and asks for the weights of two before it knows the
// row; the first block chooses.
KERNEL_CLUSTER(ROUTE_BLOCKS, route_normed, const float* __restrict weight,  // [experts, in]
               const float* __restrict x,                                   // [in]
               const float* __restrict norm,                                // [in]
               const float* __restrict parts,                               // [in / NORM_PART], see norm.h
               const float* __restrict bias,                                // [experts]
               int32_t* __restrict ids,                                     // [used]
               float* __restrict weights,                                   // [used]
               int experts, int in, int used, int scoring, int normalizes, float eps, float scale) {
  constexpr int AT_ONCE = 2, AHEAD = 64, STRIDE = ROUTE_BLOCKS * WAVES;
  SHARED(float, row, ROUTE_MOST_HIDDEN);
  SHARED(float, scores, MOST_EXPERTS);
  const int block = BLOCK_INDEX_AHEAD.x, lane = lane_id();
  cluster_arrive();
  float left[AT_ONCE][AHEAD];
  const auto fetch = [&](int expert, int from) {
    UNROLL
    for (int e = 0; e < AT_ONCE; e++) {
      const float* own = weight + static_cast<size_t>(min_of(expert + e * STRIDE, experts - 1)) * in;
      UNROLL
      for (int j = 0; j < AHEAD; j++) left[e][j] = from + j * WAVE < in ? own[from + j * WAVE] : 0.0f;
    }
  };
  const int first = block * WAVES + wave_id();
  fetch(first, lane);
  wait_for_inputs();
  let_next_begin();
  const float by = rms_of_parts(parts, in, eps);
  for (int i = 4 * thread_id(); i < in; i += 4 * BLOCK) {
    const auto values = load_aligned<Floats4>(x + i), factors = load_aligned<Floats4>(norm + i);
    UNROLL
    for (int j = 0; j < 4; j++) row[i + j] = values.f[j] * by * factors.f[j];
  }
  block_sync();
  cluster_wait();
  for (int expert = first; expert < experts; expert += AT_ONCE * STRIDE) {
    float sums[AT_ONCE] = {};
    for (int from = lane; from < in; from += AHEAD * WAVE) {
      if (expert > first || from > lane) fetch(expert, from);
      UNROLL
      for (int j = 0; j < AHEAD; j++) {
        const int i = from + j * WAVE;
        if (i >= in) continue;
        UNROLL
        for (int e = 0; e < AT_ONCE; e++) sums[e] = multiply_add(left[e][j], row[i], sums[e]);
      }
    }
    UNROLL
    for (int e = 0; e < AT_ONCE; e++) {
      const float sum = wave_sum(sums[e]);
      if (lane == 0 && expert + e * STRIDE < experts) store_in_block(&scores[expert + e * STRIDE], 0, sum);
    }
  }
  cluster_arrive();
  cluster_wait();
  if (block > 0 || wave_id() > 0) return;
  const Routing how{bias, experts, used, scoring, normalizes, scale};
  if (experts <= 4 * WAVE) {
    route_by_wave<4>(how, scores, ids, weights);
  } else {
    route_by_wave<MOST_EXPERTS / WAVE>(how, scores, ids, weights);
  }
}

// Grid: x = ffn / 16, y = used.
#define EXPERTS_SWIGLU(suffix, Format, type, batch)                                                         \
  KERNEL_OF(BLOCK, 3, experts_swiglu_##suffix,                                                              \
            const uint8_t* __restrict weight, /* [experts, 2, tiles, chunks, 4, bytes] */                   \
            const float* __restrict x,        /* [hidden] */                                                \
            const float* __restrict norm,     /* [hidden] */                                                \
            const float* __restrict parts,    /* [hidden / NORM_PART], see norm.h */                        \
            const int32_t* __restrict ids,    /* [used] */                                                  \
            type* __restrict y,               /* [used, ffn] */                                             \
            int32_t* __restrict saturated,    /* [1] */                                                     \
            int ffn, int hidden, float eps) {                                                               \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                                            \
    const bool counts = block.x == 0 && block.y == 0;                                                       \
    const NormedRow<type> row{x, norm, parts, hidden, eps, counts ? saturated : nullptr};                   \
    experts_swiglu<Format, batch>(row, weight, ids, y, saturated, ffn, block.x, block.y);                   \
  }
// Grid: x = ceil(out / 16).
#define EXPERTS_SUMMED(suffix, Format, type, batch)                                                         \
  KERNEL_OF(BLOCK, 1, experts_summed_##suffix,                                                              \
            const uint8_t* __restrict weight, /* [experts, tiles, chunks, 4, bytes] */                      \
            const type* __restrict x,         /* [used, in] */                                              \
            const int32_t* __restrict ids,    /* [used] */                                                  \
            const float* __restrict shares,   /* [used] */                                                  \
            float* __restrict y,              /* [out] */                                                   \
            float* __restrict parts,          /* [ceil(out / NORM_PART)] */                                 \
            int out, int in, int used) {                                                                    \
    experts_summed<Format, batch>(weight, x, ids, shares, y, parts, out, in, used, BLOCK_INDEX_AHEAD.x);    \
  }
// Chunks that a wave multiplies while as many are on their way: of experts_swiglu so few that three blocks find room, of
// experts_summed, of which a multiprocessor has one, as many as there is room for.
#define EXPERTS_ONE(suffix, Format, type, batch, all)  \
  EXPERTS_SWIGLU(suffix, Format, type, batch)          \
  EXPERTS_SUMMED(suffix, Format, type, all)

EXPERTS_ONE(f16, Floats<half_t>, half_t, 1, 3)
EXPERTS_ONE(bf16, Floats<bfloat_t>, bfloat_t, 1, 3)
EXPERTS_ONE(q2, Quant2, half_t, 2, 6)
EXPERTS_ONE(q3, Quant3, half_t, 2, 6)
EXPERTS_ONE(q4, Quant4, half_t, 2, 6)
EXPERTS_ONE(q5, Quant5, half_t, 2, 6)
EXPERTS_ONE(q6, Quant6, half_t, 2, 6)
EXPERTS_ONE(q8, Quant8, half_t, 2, 6)
EXPERTS_ONE(iq4, Levels4, half_t, 2, 6)
