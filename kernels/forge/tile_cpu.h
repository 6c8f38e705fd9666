// Tiles in plain loops. On the host a wave is one lane, which holds all; simulated lanes hold what NVIDIA's lanes do in
// waves of 32, what CDNA's do in waves of 64, and a product that not every lane of a wave reaches is an error.
#pragma once

namespace forge {

#if WAVE == 1
constexpr int FRAGMENT_PIECES = TILE * ROW_PIECES, FRAGMENT_ROWS = TILE;
DEVICE int piece_row(int p) { return p / ROW_PIECES; }
DEVICE int piece_k(int p) { return p % ROW_PIECES * PIECE; }
DEVICE int value_row(int i) { return i / TILE; }
DEVICE int value_column(int i) { return i % TILE; }
#elif WAVE == 32
constexpr int FRAGMENT_PIECES = 2, FRAGMENT_ROWS = 2;
DEVICE int piece_row(int p) { return lane_id() / 4 + 8 * p; }
DEVICE int piece_k(int) { return lane_id() % 4 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
DEVICE int value_column(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }
#else
constexpr int FRAGMENT_PIECES = 1, FRAGMENT_ROWS = 1;
DEVICE int piece_row(int) { return lane_id() % 16; }
DEVICE int piece_k(int) { return lane_id() / 16 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 16 * 4 + i; }
DEVICE int value_column(int) { return lane_id() % 16; }
#endif
constexpr int TILE_VALUES = TILE * TILE / WAVE, TILE_COLUMN_LANES = WAVE == 1 ? 1 : WAVE == 32 ? 4 : 16;

template <class T>
struct Fragment {
  Piece pieces[FRAGMENT_PIECES];
};
struct TileSum {
  float values[TILE_VALUES];
};

DEVICE Piece load_piece(const void* p) {
  Piece piece;
  std::memcpy(&piece, p, sizeof(piece));
  return piece;
}
DEVICE Piece stream_piece(const void* p) { return load_piece(p); }

// Sixteen rows in f32, k outermost.
struct TileRows {
  alignas(64) float elements[TILE_DEPTH][TILE];
};
template <class T>
DEVICE void unpack(TileRows& rows, const Fragment<T>& fragment) {
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    T elements[PIECE];
    std::memcpy(elements, &fragment.pieces[p], sizeof(elements));
    for (int e = 0; e < PIECE; e++) rows.elements[piece_k(p) + e][piece_row(p)] = to_float(elements[e]);
  }
}
DEVICE void multiply_add(float (&sums)[TILE][TILE], const TileRows& a, const TileRows& b) {
  for (int i = 0; i < TILE; i++) {
    for (int k = 0; k < TILE_DEPTH; k++) {
      for (int j = 0; j < TILE; j++) sums[i][j] = multiply_add(a.elements[k][i], b.elements[k][j], sums[i][j]);
    }
  }
}

#if WAVE == 1
template <int R, int C, class T>
DEVICE void multiply_tiles(TileSum (&sums)[C][R], const Fragment<T> (&a)[R], const Fragment<T> (&b)[C]) {
  TileRows left[R];
  for (int r = 0; r < R; r++) unpack(left[r], a[r]);
  for (int c = 0; c < C; c++) {
    TileRows right;
    unpack(right, b[c]);
    for (int r = 0; r < R; r++) multiply_add(reinterpret_cast<float(&)[TILE][TILE]>(sums[c][r].values), left[r], right);
  }
}
#else
template <int R, int C, class T>
struct TileOperands {
  TileSum (&sums)[C][R];
  const Fragment<T> (&a)[R];
  const Fragment<T> (&b)[C];
};
// What all lanes of a wave do as one, with each lane's operands.
template <int R, int C, class T>
void multiply_tiles_of_wave(void* const* operands) {
  const auto each_lane = [&](auto body) {
    for (int lane = 0; lane < WAVE; lane++) {
      lanes::block.current = lane;
      body(*static_cast<const TileOperands<R, C, T>*>(operands[lane]));
    }
  };
  for (int i = 0; i < C * R; i++) {
    const int r = i % R, c = i / R;
    TileRows left, right;
    float sums[TILE][TILE];
    each_lane([&](const TileOperands<R, C, T>& own) {
      unpack(left, own.a[r]);
      unpack(right, own.b[c]);
      for (int v = 0; v < TILE_VALUES; v++) sums[value_row(v)][value_column(v)] = own.sums[c][r].values[v];
    });
    multiply_add(sums, left, right);
    each_lane([&](const TileOperands<R, C, T>& own) {
      for (int v = 0; v < TILE_VALUES; v++) own.sums[c][r].values[v] = sums[value_row(v)][value_column(v)];
    });
  }
}
template <int R, int C, class T>
inline void multiply_tiles_at(int site, TileSum (&sums)[C][R], const Fragment<T> (&a)[R], const Fragment<T> (&b)[C]) {
  TileOperands<R, C, T> operands{sums, a, b};
  lanes::run_together(multiply_tiles_of_wave<R, C, T>, &operands, site);
}
#endif

}  // namespace forge

#if WAVE != 1
#define multiply_tiles(...) multiply_tiles_at(__COUNTER__, __VA_ARGS__)
#endif
