// matmul_packed_tile: matmul_packed for many rows of x, on matrix units, to the bit
//
// Products of quants are exact in any order. What lane l of matmul_packed adds up is a leaf here: the blocks l,
// l + LANE_SUMS, ..., in order. LEAVES neighbouring leaves are summed side by side, so that rows are read in runs, and
// then join the total, leaf by leaf.
#include "forge/experts.h"
#include "forge/packed_dot.h"
#include "forge/tile_int.h"

namespace {
using namespace forge;

// Rows of the weight and of x that one block multiplies: sixteen rows of the weight a wave, times half of the tokens.
constexpr int ROWS = PACKED_TILE, TOKENS = PACKED_TILE, TOKEN_TILES = TOKENS / TILE;
// Tiles of a block, and a wave's.
constexpr int TILES = ROWS / TILE * TOKEN_TILES, OWNED = TILES / WAVES;
// A leaf of a wave of 64 is the sum of two lanes'.
constexpr int LANES_A_LEAF = WAVE > LANE_SUMS ? WAVE / LANE_SUMS : 1;

// A whole number s below 2^22 added to FLOAT_BIAS is the bits of the float 1.5 · 2^23 + s: one subtraction makes a
// float of it, which is cheaper than a conversion.
constexpr int FLOAT_BIAS = 0x4b400000;
DEVICE float biased_float(int bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value - 12582912.0f;
}
// Rows of a leaf in LDS: padded, so that sixteen of them meet no bank twice.
constexpr int PITCH = ROW_PIECES + 1, LEAF_PITCH = ROWS * PITCH + 2;

template <class F>
DEVICE void matmul_packed_tile(Dim3 block, const uint8_t* __restrict weight, const uint8_t* __restrict x,
                               float* __restrict y, int tokens, int out, int blocks, int y_stride, int accumulate) {
  static_assert(OWNED * WAVES == TILES, "whole tiles a wave");
  // Formats that need the most registers get by with the sums of two leaves, or of one.
  constexpr bool TAKES_MOST = F::HAS_HALF_SCALES || (F::Quants::BITS == 5 && F::HAS_MINIMUM);
  constexpr int LEAVES = min_of(LANE_SUMS, (TAKES_MOST ? 2 : 4) / (TILES_BY_DOTS ? 2 : 1));
  constexpr int UNITS = LEAVES * ROWS, UNITS_A_THREAD = (UNITS + BLOCK - 1) / BLOCK;
  const int first_token = block.x * TOKENS, first_row = block.y * ROWS, in = blocks * Q8_BLOCK;
  const size_t row_bytes = packed_row_bytes<F>(blocks);
  const uint8_t* inputs = x + static_cast<size_t>(first_token) * blocks * Q8_BLOCK_BYTES;

  SHARED(Words2, weights, (LEAVES * LEAF_PITCH));
  SHARED(Words2, activations, (LEAVES * LEAF_PITCH));
  SHARED(float, weight_scales, UNITS);
  SHARED(float, weight_minimums, UNITS);
  SHARED(int, weight_halves, UNITS);
  SHARED(float, scales, UNITS);
  // Initial value of a token's products of a block, or both sums of its quants if a weight has two scales.
  SHARED(int, sums, UNITS);
  SHARED(float, scaled_sums, UNITS);

  // A lane's pieces of sixteen rows of a leaf.
  int places[FRAGMENT_PIECES];
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) places[p] = piece_row(p) * PITCH + piece_place(p);
  // Tile `o` of a wave: the rows of the weight and of x that it is of.
  const auto row_of = [&](int o) { return (wave_id() * OWNED + o) / TOKEN_TILES * TILE; };
  const auto token_of = [&](int o) { return (wave_id() * OWNED + o) % TOKEN_TILES * TILE; };

  // Data that a thread loads for the next blocks, base to base + LEAVES - 1, while these are multiplied.
  struct Unit {
    WeightPart<F> weight;
    InputPart input;
  };
  Unit stage[UNITS_A_THREAD];
  const auto bring = [&](int base) {
    UNROLL
    for (int u = 0; u < UNITS_A_THREAD; u++) {
      const int unit = min_of(u * BLOCK + thread_id(), UNITS - 1), b = min_of(base + unit % LEAVES, blocks - 1);
      const int token = min_of(unit / LEAVES, tokens - first_token - 1);
      stage[u].weight = load_weight<F>(weight + min_of(first_row + unit / LEAVES, out - 1) * row_bytes, b, blocks);
      stage[u].input = load_input<F>(inputs, token * blocks * Q8_BLOCK_BYTES, in, b);
    }
  };

  bring(0);
  TileSum totals[OWNED];
  for (int first_leaf = 0; first_leaf < LANE_SUMS; first_leaf += LEAVES) {
    TileSum leaves[LANES_A_LEAF][LEAVES][OWNED];
    UNROLL
    for (int a = 0; a < LANES_A_LEAF; a++) {
      UNROLL
      for (int l = 0; l < LEAVES; l++) {
        UNROLL
        for (int o = 0; o < OWNED; o++) clear(leaves[a][l][o]);
      }
    }
    for (int turn = first_leaf; turn < blocks; turn += LANE_SUMS * LANES_A_LEAF) {
      UNROLL
      for (int a = 0; a < LANES_A_LEAF; a++) {
        const int base = turn + a * LANE_SUMS;
        if (base >= blocks) continue;
        UNROLL
        for (int u = 0; u < UNITS_A_THREAD; u++) {
          const int unit = u * BLOCK + thread_id(), b = min_of(base + unit % LEAVES, blocks - 1);
          const int place = unit % LEAVES * ROWS + unit / LEAVES;
          const int at = unit % LEAVES * LEAF_PITCH + unit / LEAVES * PITCH;
          if (unit >= UNITS) continue;
          const WeightPart<F>& part = stage[u].weight;
          const InputPart& input = stage[u].input;
          UNROLL
          for (int p = 0; p < ROW_PIECES; p++) {
            weights[at + p] = Words2{
                {static_cast<uint32_t>(F::word(part.quants, p)), static_cast<uint32_t>(F::word(part.quants, p + 4))}};
            activations[at + p] = Words2{{input.low.w[p], input.high.w[p]}};
          }
          weight_scales[place] = F::Scales::scale(part.scales, b);
          if (F::HAS_MINIMUM) weight_minimums[place] = F::Scales::minimum(part.scales, b);
          if constexpr (F::HAS_HALF_SCALES) weight_halves[place] = F::Scales::halves(part.scales, b);
          scales[place] = input.scale;
          if constexpr (F::HAS_HALF_SCALES) {
            sums[place] = (input.sum_low & 0xffff) | input.sum_high << 16;
          } else if constexpr (F::USES_SUMS) {
            const int sum = input.sum_low + input.sum_high;
            if (F::ZERO != 0) sums[place] = FLOAT_BIAS - F::ZERO * sum;
            if (F::HAS_MINIMUM) scaled_sums[place] = input.scale * static_cast<float>(sum);
          }
        }
        block_sync();
        bring(base + LANE_SUMS < blocks ? base + LANE_SUMS : first_leaf + LEAVES);
        UNROLL
        for (int l = 0; l < LEAVES; l++) {
          if (base + l >= blocks) continue;
          UNROLL
          for (int o = 0; o < OWNED; o++) {
            const int row = l * ROWS + row_of(o), token = l * ROWS + token_of(o);
            IntFragment left, right;
            UNROLL
            for (int p = 0; p < FRAGMENT_PIECES; p++) {
              left.pieces[p] = activations[l * LEAF_PITCH + token_of(o) * PITCH + places[p]];
              right.pieces[p] = weights[l * LEAF_PITCH + row_of(o) * PITCH + places[p]];
            }
            const auto sums_of = [&](int i) { return sums[token + value_row(i)]; };
            IntTile low, high;
            UNROLL
            for (int i = 0; i < TILE_VALUES; i++) {
              low.values[i] = high.values[i] = 0;
              if constexpr (!F::HAS_HALF_SCALES) low.values[i] = F::ZERO != 0 ? sums_of(i) : FLOAT_BIAS;
            }
            if constexpr (F::HAS_HALF_SCALES) {
              IntFragment upper = right;
              UNROLL
              for (int p = 0; p < FRAGMENT_PIECES; p++) {
                right.pieces[p].w[1] = 0;
                upper.pieces[p].w[0] = 0;
              }
              multiply_bytes(high, left, upper);
            }
            multiply_bytes(low, left, right);
            TileSum& leaf = leaves[a][l][o];
            UNROLL
            for (int i = 0; i < TILE_VALUES; i++) {
              const int n = row + value_column(i), t = token + value_row(i);
              float products;
              if constexpr (F::HAS_HALF_SCALES) {
                const int halves = weight_halves[n], both = sums_of(i);
                const int lower = (low.values[i] - F::ZERO * static_cast<int16_t>(both)) * half_scale(halves, 0);
                const int upper = (high.values[i] - F::ZERO * (both >> 16)) * half_scale(halves, 1);
                products = static_cast<float>(lower + upper);
              } else {
                products = biased_float(low.values[i]);
              }
              const float scale = scales[t];
              leaf.values[i] = multiply_add(products, weight_scales[n] * scale, leaf.values[i]);
              if (F::HAS_MINIMUM) {
                float scaled;
                if constexpr (F::HAS_HALF_SCALES) {
                  const int halves = weight_halves[n], both = sums_of(i);
                  const int sum =
                      static_cast<int16_t>(both) * half_minimum(halves, 0) + (both >> 16) * half_minimum(halves, 1);
                  scaled = scale * static_cast<float>(sum);
                } else {
                  scaled = scaled_sums[t];
                }
                leaf.values[i] = multiply_add(-weight_minimums[n], scaled, leaf.values[i]);
              }
            }
          }
        }
        block_sync();
      }
    }
    UNROLL
    for (int l = 0; l < LEAVES; l++) {
      UNROLL
      for (int o = 0; o < OWNED; o++) {
        UNROLL
        for (int a = 1; a < LANES_A_LEAF; a++) add(leaves[0][l][o], leaves[a][l][o]);
        if (first_leaf + l == 0) {
          totals[o] = leaves[0][l][o];
        } else {
          add(totals[o], leaves[0][l][o]);
        }
      }
    }
  }

  UNROLL
  for (int o = 0; o < OWNED; o++) {
    UNROLL
    for (int i = 0; i < TILE_VALUES; i++) {
      const int n = first_row + row_of(o) + value_column(i), t = first_token + token_of(o) + value_row(i);
      if (n >= out || t >= tokens) continue;
      float* target = y + static_cast<size_t>(t) * y_stride + n;
      *target = accumulate ? *target + totals[o].values[i] : totals[o].values[i];
    }
  }
}
}  // namespace

// Grid: x = ceil(tokens / TOKENS), y = ceil(out / ROWS): blocks that share weights run at one time.
#define MATMUL_PACKED_TILE(name, Format)                                                                        \
  KERNEL_RESIDENT(1, name, const uint8_t* __restrict weight,           /* [out, packed_row_bytes], Format */    \
                  const uint8_t* __restrict x,                         /* [tokens, in / 32, 40], see q8.h */    \
                  float* __restrict y,                                 /* [tokens, out], rows y_stride apart */ \
                  const int32_t* __restrict tokens,                    /* [1] */                                \
                  int out, int blocks, int y_stride, int accumulate) { /* 1: y += */                            \
    const forge::Dim3 block = BLOCK_INDEX;                                                                      \
    if (block.x * TOKENS >= *tokens) return;                                                                    \
    matmul_packed_tile<forge::Format>(block, weight, x, y, *tokens, out, blocks, y_stride, accumulate);         \
  }
#define MATMUL_PACKED_TILE_FORMAT(type, Name) MATMUL_PACKED_TILE(matmul_packed_tile_##type, Packed##Name)

FORGE_PACKED_FORMATS(MATMUL_PACKED_TILE_FORMAT)

// Product of each expert's matrix and its run of rows. Grid: as above, z = experts.
#define MATMUL_EXPERTS(name, Format)                                                                                  \
  KERNEL_RESIDENT(1, name, const uint8_t* __restrict weight, /* [experts, out, packed_row_bytes] */                   \
                  const uint8_t* __restrict x,               /* [places, in / 32, 40], see q8.h */                    \
                  float* __restrict y,                       /* [places, out], rows y_stride apart */                 \
                  const int32_t* __restrict runs,            /* [experts, 3], see experts.h */                        \
                  int out, int blocks, int y_stride) {                                                                \
    using F = forge::Format;                                                                                          \
    const forge::Dim3 block = BLOCK_INDEX;                                                                            \
    const forge::Run run = forge::run_at(runs, block.z);                                                              \
    if (block.x * TOKENS >= run.count) return;                                                                        \
    matmul_packed_tile<F>(block, weight + static_cast<size_t>(run.expert) * out * forge::packed_row_bytes<F>(blocks), \
                          x + static_cast<size_t>(run.first) * blocks * forge::Q8_BLOCK_BYTES,                        \
                          y + static_cast<size_t>(run.first) * y_stride, run.count, out, blocks, y_stride, 0);        \
  }
#define MATMUL_EXPERTS_FORMAT(type, Name) MATMUL_EXPERTS(matmul_packed_experts_tile_##type, Packed##Name)

FORGE_PACKED_FORMATS(MATMUL_EXPERTS_FORMAT)
