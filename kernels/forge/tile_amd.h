// Tiles on AMD's matrix units: WMMA on RDNA 3 and 4 (wave32), MFMA on CDNA (wave64); two 16 x 16 x 16 products a tile.
// GPUs without such units (RDNA 2, Vega) hold what RDNA 4 or CDNA hold, and multiply by dot instructions (tile_dots.h).
#pragma once

namespace forge {

#if defined(__HIP__)
template <class Element, int N>
using VectorOf = Element __attribute__((ext_vector_type(N)));
#else
template <class Element, int N>
struct alignas(sizeof(Element) * N) VectorOf {
  Element elements[N];
  Element& operator[](int i) { return elements[i]; }
  const Element& operator[](int i) const { return elements[i]; }
};
#endif

#if defined(__GFX11__)
// Lanes l and l + 16 both hold row l % 16, sixteen elements an instruction.
constexpr int FRAGMENT_PIECES = 4, TILE_VALUES = 8, PRODUCT_ELEMENTS = 16;
DEVICE int piece_row(int, int lane = lane_id_anew()) { return lane % 16; }
DEVICE int piece_k(int p, int = 0) { return p * PIECE; }
DEVICE int value_row(int i) { return 2 * i + lane_id() / 16; }
#elif defined(__GFX12__) || (defined(FORGE_TILE_DOTS) && WAVE == 32)
// The first sixteen lanes hold eight of the sixteen elements of an instruction, the others the other eight.
constexpr int FRAGMENT_PIECES = 2, TILE_VALUES = 8, PRODUCT_ELEMENTS = 8;
DEVICE int piece_row(int, int lane = lane_id_anew()) { return lane % 16; }
DEVICE int piece_k(int p, int lane = lane_id()) { return (2 * p + lane / 16) * PIECE; }
DEVICE int value_row(int i) { return i + lane_id() / 16 * 8; }
#else
// Each sixteen lanes hold eight elements of all rows; one instruction takes the first four of each eight.
constexpr int FRAGMENT_PIECES = 1, TILE_VALUES = 4, PRODUCT_ELEMENTS = 4;
DEVICE int piece_row(int, int lane = lane_id_anew()) { return lane % 16; }
DEVICE int piece_k(int, int lane = lane_id()) { return lane / 16 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 16 * 4 + i; }
#endif
constexpr int FRAGMENT_ROWS = 1, TILE_COLUMN_LANES = 16;
DEVICE int value_column(int) { return lane_id() % 16; }

template <class T>
struct Fragment {
  Piece pieces[FRAGMENT_PIECES];
};
using Sums = VectorOf<float, TILE_VALUES>;
// A vector as the unit takes it: single floats would be put together again after every branch.
struct TileSum {
  Sums values;
};

DEVICE Piece load_piece(const void* p) { return *static_cast<const Piece*>(p); }
// For what is read once.
#if defined(__HIP__)
DEVICE Piece stream_piece(const void* p) {
  using Words = VectorOf<uint32_t, 4>;
  return __builtin_bit_cast(Piece, __builtin_nontemporal_load(static_cast<const Words*>(p)));
}
#else
DEVICE Piece stream_piece(const void* p) { return load_piece(p); }
#endif

#if defined(FORGE_TILE_DOTS)
}  // namespace forge
#include "tile_dots.h"
namespace forge {
#elif defined(__GFX11__)
DEVICE Sums product(VectorOf<half_t, 16> a, VectorOf<half_t, 16> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);
}
DEVICE Sums product(VectorOf<int16_t, 16> a, VectorOf<int16_t, 16> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
}
#elif defined(__GFX12__)
// The unit needs all lanes of the wave. clang 19 does not know that of these instructions: it moves one whose result
// only some lanes use to where the others are switched off, unless something else needs the result here.
template <class Sum>
DEVICE VectorOf<Sum, TILE_VALUES> of_all_lanes(VectorOf<Sum, TILE_VALUES> sums) {
  asm volatile("" : "+v"(sums));
  return sums;
}
DEVICE Sums product(VectorOf<half_t, 8> a, VectorOf<half_t, 8> b, Sums c) {
  return of_all_lanes<float>(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c));
}
DEVICE Sums product(VectorOf<int16_t, 8> a, VectorOf<int16_t, 8> b, Sums c) {
  return of_all_lanes<float>(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c));
}
#else
DEVICE Sums product(VectorOf<half_t, 4> a, VectorOf<half_t, 4> b, Sums c) {
  return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
}
DEVICE Sums product(VectorOf<int16_t, 4> a, VectorOf<int16_t, 4> b, Sums c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
}
#endif

#if !defined(FORGE_TILE_DOTS)
// Element type of the matrix units' intrinsics.
template <class T>
struct TileElement {
  using Type = T;
};
template <>
struct TileElement<bfloat_t> {
  using Type = int16_t;
};
template <class T>
using Operand = VectorOf<typename TileElement<T>::Type, PRODUCT_ELEMENTS>;
#endif

template <int R, int C, class T>
DEVICE void multiply_tiles(TileSum (&sums)[C][R], const Fragment<T> (&a)[R], const Fragment<T> (&b)[C]) {
  struct Halves {
    Operand<T> half[2];
  };
  UNROLL
  for (int half = 0; half < 2; half++) {
    UNROLL
    for (int i = 0; i < C * R; i++) {
      const int r = i % R, c = i / R;
      const Halves left = __builtin_bit_cast(Halves, a[r]), right = __builtin_bit_cast(Halves, b[c]);
      sums[c][r].values = product(left.half[half], right.half[half], sums[c][r].values);
    }
  }
}

// Attention. Products are of keys and queries, and of values and weights, in this order: what a lane holds of the sums
// then lies as the second operand of the next product does, and is all of one query.
constexpr int QUERIES_HELD = 1, QUERY_LANES = WAVE / 16, QUERY_LANE_STEP = 16;
// RDNA and Vega have 256 registers a lane: too few for the queries beside scores and results.
#if defined(FORGE_TILE_DOTS)
constexpr bool HOLDS_QUERIES = false;
#else
constexpr bool HOLDS_QUERIES = WAVE == 64;
#endif
DEVICE int score_query(int i) { return value_column(i); }
DEVICE int score_key(int i) { return value_row(i); }
DEVICE constexpr int held_index(int) { return 0; }
DEVICE int held_query(int) { return lane_id() % 16; }

// Elements of an operand of sixteen keys that a lane holds.
struct ValueTile {
  VectorOf<half_t, PRODUCT_ELEMENTS> elements;
};
#if defined(__GFX11__)
constexpr bool VALUES_PAIRED = false;
// Lanes l and l + 16 hold the same operand: weights, which stay in registers, in halves until they are used.
DEVICE uint32_t others(uint32_t word) {
  return __builtin_amdgcn_permlanex16(word, word, 0x76543210, 0xfedcba98, true, false);
}
// Every other key's weight.
struct WeightTile {
  VectorOf<uint32_t, 4> words;
};
DEVICE WeightTile to_weights(const TileSum& scores) {
  WeightTile weights;
  UNROLL
  for (int i = 0; i < 4; i++) {
    const VectorOf<half_t, 2> pair = {to_half(scores.values[2 * i]), to_half(scores.values[2 * i + 1])};
    weights.words[i] = __builtin_bit_cast(uint32_t, pair);
  }
  return weights;
}
DEVICE VectorOf<half_t, 16> weight_operand(const WeightTile& weights) {
  const bool is_odd = lane_id() >= 16;
  VectorOf<uint32_t, 8> words;
  UNROLL
  for (int i = 0; i < 4; i++) {
    const uint32_t own = weights.words[i], other = others(own);
    const uint32_t even = is_odd ? other : own, odd = is_odd ? own : other;
    words[2 * i] = pick_bytes(even, odd, 0x05040100u);
    words[2 * i + 1] = pick_bytes(even, odd, 0x07060302u);
  }
  return __builtin_bit_cast(VectorOf<half_t, 16>, words);
}
#else
constexpr bool VALUES_PAIRED = true;
using WeightTile = ValueTile;
DEVICE WeightTile to_weights(const TileSum& scores) {
  WeightTile weights;
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) weights.elements[i] = to_half(scores.values[i]);
  return weights;
}
DEVICE VectorOf<half_t, PRODUCT_ELEMENTS> weight_operand(const WeightTile& weights) { return weights.elements; }
#endif

template <int N, int C>
DEVICE void multiply_scores(TileSum (&scores)[N], int first, const Fragment<half_t>& query,
                            const Fragment<half_t> (&keys)[C]) {
  struct Halves {
    VectorOf<half_t, PRODUCT_ELEMENTS> half[2];
  };
  const Halves right = __builtin_bit_cast(Halves, query);
  UNROLL
  for (int half = 0; half < 2; half++) {
    UNROLL
    for (int c = 0; c < C; c++) {
      const Halves left = __builtin_bit_cast(Halves, keys[c]);
      scores[first + c].values = product(left.half[half], right.half[half], scores[first + c].values);
    }
  }
}

template <class Lds>
DEVICE ValueTile load_value_tile(Lds transposed, int transposed_pitch, int key, int element, int lane) {
  const int row = element + lane % 16, group = WAVE == 64 ? lane / 32 : PRODUCT_ELEMENTS == 8 ? lane / 16 : 0;
  ValueTile tile;
  UNROLL
  for (int p = 0; p < (PRODUCT_ELEMENTS + PIECE - 1) / PIECE; p++) {
#if defined(__HIP__)
    const auto* from = reinterpret_cast<const char*>(&transposed[row * transposed_pitch + key / PIECE + group + p]);
#else
    const Piece piece = transposed[row * transposed_pitch + key / PIECE + group + p];
    const auto* from = reinterpret_cast<const char*>(&piece);
#endif
    if (WAVE == 64) from += lane / 16 % 2 * sizeof(tile);
    __builtin_memcpy(reinterpret_cast<char*>(&tile) + p * sizeof(Piece), __builtin_assume_aligned(from, 8),
                     min_of(sizeof(tile), sizeof(Piece)));
  }
  return tile;
}

template <int C>
DEVICE void multiply_values(TileSum (&sums)[C], const WeightTile& weights, const ValueTile (&values)[C]) {
  const auto right = weight_operand(weights);
  UNROLL
  for (int c = 0; c < C; c++) {
    sums[c].values = product(values[c].elements, right, sums[c].values);
  }
}
DEVICE void add_weights(TileSum& sums, const WeightTile& weights) {
  ValueTile ones;
  UNROLL
  for (int i = 0; i < PRODUCT_ELEMENTS; i++) ones.elements[i] = __builtin_bit_cast(half_t, uint16_t{0x3c00});
  sums.values = product(ones.elements, weight_operand(weights), sums.values);
}
DEVICE float weight_sum(const TileSum& sums, int) { return sums.values[0]; }

}  // namespace forge
