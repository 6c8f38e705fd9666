// Tiles on AMD's matrix units: WMMA on RDNA 3 and 4 (wave32), MFMA on CDNA (wave64); two 16 x 16 x 16 products a tile.
#pragma once

namespace forge {

template <class Element, int N>
using VectorOf = Element __attribute__((ext_vector_type(N)));

#if defined(__GFX11__)
// Lanes l and l + 16 both hold row l % 16, sixteen elements an instruction.
constexpr int FRAGMENT_PIECES = 4, TILE_VALUES = 8, PRODUCT_ELEMENTS = 16;
DEVICE int piece_row(int) { return lane_id() % 16; }
DEVICE int piece_k(int p) { return p * PIECE; }
DEVICE int value_row(int i) { return 2 * i + lane_id() / 16; }
#elif defined(__GFX12__)
// The first sixteen lanes hold eight of the sixteen elements of an instruction, the others the other eight.
constexpr int FRAGMENT_PIECES = 2, TILE_VALUES = 8, PRODUCT_ELEMENTS = 8;
DEVICE int piece_row(int) { return lane_id() % 16; }
DEVICE int piece_k(int p) { return (2 * p + lane_id() / 16) * PIECE; }
DEVICE int value_row(int i) { return i + lane_id() / 16 * 8; }
#else
// Each sixteen lanes hold eight elements of all rows; one instruction takes the first four of each eight.
constexpr int FRAGMENT_PIECES = 1, TILE_VALUES = 4, PRODUCT_ELEMENTS = 4;
DEVICE int piece_row(int) { return lane_id() % 16; }
DEVICE int piece_k(int) { return lane_id() / 16 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 16 * 4 + i; }
#endif
constexpr int FRAGMENT_ROWS = 1, TILE_COLUMN_LANES = 16;
DEVICE int value_column(int) { return lane_id() % 16; }

template <class T>
struct Fragment {
  Piece pieces[FRAGMENT_PIECES];
};
struct TileSum {
  float values[TILE_VALUES];
};

DEVICE Piece load_piece(const void* p) { return *static_cast<const Piece*>(p); }
// For what is read once.
DEVICE Piece stream_piece(const void* p) {
  using Words = VectorOf<uint32_t, 4>;
  return __builtin_bit_cast(Piece, __builtin_nontemporal_load(static_cast<const Words*>(p)));
}

using Sums = VectorOf<float, TILE_VALUES>;
#if defined(__GFX11__)
DEVICE Sums product(VectorOf<half_t, 16> a, VectorOf<half_t, 16> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);
}
DEVICE Sums product(VectorOf<int16_t, 16> a, VectorOf<int16_t, 16> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
}
#elif defined(__GFX12__)
DEVICE Sums product(VectorOf<half_t, 8> a, VectorOf<half_t, 8> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c);
}
DEVICE Sums product(VectorOf<int16_t, 8> a, VectorOf<int16_t, 8> b, Sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
}
#else
DEVICE Sums product(VectorOf<half_t, 4> a, VectorOf<half_t, 4> b, Sums c) {
  return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
}
DEVICE Sums product(VectorOf<int16_t, 4> a, VectorOf<int16_t, 4> b, Sums c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
}
#endif

// What the matrix units' intrinsics call an element.
template <class T>
struct TileElement {
  using Type = T;
};
template <>
struct TileElement<bfloat_t> {
  using Type = int16_t;
};

template <int R, int C, class T>
DEVICE void multiply_tiles(TileSum (&sums)[C][R], const Fragment<T> (&a)[R], const Fragment<T> (&b)[C]) {
  struct Halves {
    VectorOf<typename TileElement<T>::Type, PRODUCT_ELEMENTS> half[2];
  };
  UNROLL
  for (int half = 0; half < 2; half++) {
    UNROLL
    for (int i = 0; i < C * R; i++) {
      const int r = i % R, c = i / R;
      const Halves left = __builtin_bit_cast(Halves, a[r]), right = __builtin_bit_cast(Halves, b[c]);
      const Sums sum = product(left.half[half], right.half[half], __builtin_bit_cast(Sums, sums[c][r]));
      sums[c][r] = __builtin_bit_cast(TileSum, sum);
    }
  }
}

}  // namespace forge
