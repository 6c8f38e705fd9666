// Matrix units on whole numbers: sixteen rows of TILE_DEPTH signed bytes times sixteen rows of the same. Lanes hold
// what they hold in tile.h: FRAGMENT_PIECES runs of eight elements, and TILE_VALUES sums. Sums are exact, so the
// elements of a row may be in any order that is the same for both.
#pragma once

#include "tile.h"
#include "words.h"

namespace forge {

struct IntFragment {
  Words2 pieces[FRAGMENT_PIECES];
};
struct IntTile {
  int values[TILE_VALUES];
};
// Which run of its row piece p is.
DEVICE int piece_place(int p) { return piece_k(p) / PIECE; }

#if defined(__CUDACC__)

DEVICE void multiply_bytes(IntTile& sum, const IntFragment& a, const IntFragment& b) {
  UNROLL
  for (int column = 0; column < 2; column++) {
    int* c = sum.values + 4 * column;
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a.pieces[0].w[0]), "r"(a.pieces[1].w[0]), "r"(a.pieces[0].w[1]), "r"(a.pieces[1].w[1]),
          "r"(b.pieces[column].w[0]), "r"(b.pieces[column].w[1]));
  }
}

#elif defined(__HIP__) || defined(FORGE_TILE_DOTS)

using IntSums = VectorOf<int, TILE_VALUES>;
DEVICE void multiply_bytes(IntTile& sum, const IntFragment& a, const IntFragment& b) {
  IntSums c = __builtin_bit_cast(IntSums, sum);
#if defined(FORGE_TILE_DOTS)
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) c = product(a.pieces[p], b.pieces[p], c);
#elif defined(__GFX11__)
  struct Halves {
    VectorOf<int, 4> half[2];
  };
  const Halves x = __builtin_bit_cast(Halves, a), y = __builtin_bit_cast(Halves, b);
  UNROLL
  for (int h = 0; h < 2; h++)
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x.half[h], true, y.half[h], c, false);
#elif defined(__GFX12__)
  struct Halves {
    VectorOf<int, 2> half[2];
  };
  const Halves x = __builtin_bit_cast(Halves, a), y = __builtin_bit_cast(Halves, b);
  UNROLL
  for (int h = 0; h < 2; h++) {
    c = of_all_lanes<int>(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, x.half[h], true, y.half[h], c, false));
  }
#elif defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
  c = __builtin_amdgcn_mfma_i32_16x16x32_i8(__builtin_bit_cast(long, a), __builtin_bit_cast(long, b), c, 0, 0, 0);
#else
  UNROLL
  for (int h = 0; h < 2; h++) {
    c = __builtin_amdgcn_mfma_i32_16x16x16i8(static_cast<int>(a.pieces[0].w[h]), static_cast<int>(b.pieces[0].w[h]), c,
                                             0, 0, 0);
  }
#endif
  sum = __builtin_bit_cast(IntTile, c);
}

#else

// Sixteen rows of bytes.
struct ByteRows {
  int8_t elements[TILE][TILE_DEPTH];
};
DEVICE void unpack(ByteRows& rows, const IntFragment& fragment) {
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    std::memcpy(&rows.elements[piece_row(p)][piece_k(p)], &fragment.pieces[p], sizeof(Words2));
  }
}
DEVICE int dot(const ByteRows& a, int i, const ByteRows& b, int j) {
  int sum = 0;
  for (int k = 0; k < TILE_DEPTH; k++) sum += a.elements[i][k] * b.elements[j][k];
  return sum;
}

#if WAVE == 1
DEVICE void multiply_bytes(IntTile& sum, const IntFragment& a, const IntFragment& b) {
  ByteRows left, right;
  unpack(left, a);
  unpack(right, b);
  for (int v = 0; v < TILE_VALUES; v++) sum.values[v] += dot(left, value_row(v), right, value_column(v));
}
#else
struct ByteOperands {
  IntTile* sum;
  const IntFragment *a, *b;
};
inline void multiply_bytes_of_wave(void* const* operands) {
  ByteRows left, right;
  const auto each_lane = [&](auto body) {
    for (int lane = 0; lane < WAVE; lane++) {
      lanes::block().current = lane;
      body(*static_cast<const ByteOperands*>(operands[lane]));
    }
  };
  each_lane([&](const ByteOperands& own) {
    unpack(left, *own.a);
    unpack(right, *own.b);
  });
  each_lane([&](const ByteOperands& own) {
    for (int v = 0; v < TILE_VALUES; v++) own.sum->values[v] += dot(left, value_row(v), right, value_column(v));
  });
}
inline void multiply_bytes_at(int site, IntTile& sum, const IntFragment& a, const IntFragment& b) {
  ByteOperands operands{&sum, &a, &b};
  lanes::run_together(multiply_bytes_of_wave, &operands, site);
}
#endif

#endif

}  // namespace forge

#if defined(FORGE_LANES) && !defined(FORGE_TILE_DOTS)
#define multiply_bytes(...) multiply_bytes_at(__COUNTER__, __VA_ARGS__)
#endif
