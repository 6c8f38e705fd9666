// Tiles in plain loops. On the host a wave is one lane, which holds all; simulated lanes hold what NVIDIA's lanes do in
// waves of 32, what CDNA's do in waves of 64, and a product that not every lane of a wave reaches is an error.
#pragma once

namespace forge {

#if WAVE == 1
constexpr int FRAGMENT_PIECES = TILE * ROW_PIECES, FRAGMENT_ROWS = TILE;
DEVICE int piece_row(int p, int = 0) { return p / ROW_PIECES; }
DEVICE int piece_k(int p, int = 0) { return p % ROW_PIECES * PIECE; }
DEVICE int value_row(int i) { return i / TILE; }
DEVICE int value_column(int i) { return i % TILE; }
#elif WAVE == 32
constexpr int FRAGMENT_PIECES = 2, FRAGMENT_ROWS = 2;
DEVICE int piece_row(int p, int lane = lane_id()) { return lane / 4 + 8 * p; }
DEVICE int piece_k(int, int lane = lane_id()) { return lane % 4 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
DEVICE int value_column(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }
#else
constexpr int FRAGMENT_PIECES = 1, FRAGMENT_ROWS = 1;
DEVICE int piece_row(int, int lane = lane_id()) { return lane % 16; }
DEVICE int piece_k(int, int lane = lane_id()) { return lane / 16 * PIECE; }
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
// Operation of a whole wave, with each lane's operands.
template <int R, int C, class T>
void multiply_tiles_of_wave(void* const* operands) {
  const auto each_lane = [&](auto body) {
    for (int lane = 0; lane < WAVE; lane++) {
      lanes::block().current = lane;
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

// Attention: who holds what is as on NVIDIA in waves of 32, as on CDNA in waves of 64.
#if WAVE == 64
constexpr int QUERIES_HELD = 1, QUERY_LANE_STEP = 16;
DEVICE int score_query(int i) { return value_column(i); }
DEVICE int score_key(int i) { return value_row(i); }
DEVICE int held_index(int) { return 0; }
DEVICE int held_query(int) { return lane_id() % 16; }
#else
constexpr int QUERIES_HELD = FRAGMENT_ROWS, QUERY_LANE_STEP = 1;
DEVICE int score_query(int i) { return value_row(i); }
DEVICE int score_key(int i) { return value_column(i); }
DEVICE int held_index(int i) { return WAVE == 1 ? i / TILE : i / 2 % 2; }
DEVICE int held_query(int h) { return WAVE == 1 ? h : lane_id() / 4 + 8 * h; }
#endif
constexpr int QUERY_LANES = TILE_COLUMN_LANES == 16 ? WAVE / 16 : TILE_COLUMN_LANES;
constexpr bool VALUES_PAIRED = true, HOLDS_QUERIES = true;

// Element i of weights is of the query and key of score i; of values, of the element score_query(i) and that key.
struct WeightTile {
  half_t elements[TILE_VALUES];
};
struct ValueTile {
  half_t elements[TILE_VALUES];
};
DEVICE WeightTile to_weights(const TileSum& scores) {
  WeightTile weights;
  for (int i = 0; i < TILE_VALUES; i++) weights.elements[i] = to_half(scores.values[i]);
  return weights;
}
template <class Lds>
DEVICE ValueTile load_value_tile(Lds strip, int transposed_pitch, int key, int element, int) {
  ValueTile tile;
  for (int i = 0; i < TILE_VALUES; i++) {
    const int k = key + score_key(i), e = element + score_query(i);
    const Piece piece = TRANSPOSES_VALUES ? strip[e * transposed_pitch + k / PIECE] : strip[strip_slot(k, e / PIECE)];
    std::memcpy(&tile.elements[i], reinterpret_cast<const half_t*>(&piece) + (TRANSPOSES_VALUES ? k : e) % PIECE,
                sizeof(half_t));
  }
  return tile;
}

// A lane's share in a product of sixteen queries with the sixteen keys, or elements, of C tiles.
template <int C>
struct ScoreOperands {
  TileSum* scores;
  const Fragment<half_t>& query;
  const Fragment<half_t> (&keys)[C];
  static constexpr int DEPTH = TILE_DEPTH;
  void put(float (&a)[DEPTH][TILE], float (&b)[DEPTH][TILE], int c) const {
    for (int p = 0; p < FRAGMENT_PIECES; p++) {
      half_t q[PIECE], k[PIECE];
      std::memcpy(q, &query.pieces[p], sizeof(q));
      std::memcpy(k, &keys[c].pieces[p], sizeof(k));
      for (int e = 0; e < PIECE; e++) {
        a[piece_k(p) + e][piece_row(p)] = to_float(q[e]);
        b[piece_k(p) + e][piece_row(p)] = to_float(k[e]);
      }
    }
  }
  TileSum& sum(int c) const { return scores[c]; }
};
template <int C>
struct ValueOperands {
  TileSum* sums;
  const WeightTile& weights;
  const ValueTile* values;
  static constexpr int DEPTH = TILE;
  void put(float (&a)[DEPTH][TILE], float (&b)[DEPTH][TILE], int c) const {
    for (int i = 0; i < TILE_VALUES; i++) {
      a[score_key(i)][score_query(i)] = to_float(weights.elements[i]);
      b[score_key(i)][score_query(i)] = values ? to_float(values[c].elements[i]) : 1.0f;
    }
  }
  TileSum& sum(int c) const { return sums[c]; }
};
// `each_lane(body)` calls body with each lane's operands.
template <class Operands, int C, class EachLane>
DEVICE void attention_product(EachLane each_lane) {
  for (int c = 0; c < C; c++) {
    float a[Operands::DEPTH][TILE], b[Operands::DEPTH][TILE], sums[TILE][TILE];
    each_lane([&](const Operands& own) {
      own.put(a, b, c);
      for (int i = 0; i < TILE_VALUES; i++) sums[score_query(i)][score_key(i)] = own.sum(c).values[i];
    });
    for (int i = 0; i < TILE; i++) {
      for (int k = 0; k < Operands::DEPTH; k++) {
        for (int j = 0; j < TILE; j++) sums[i][j] = multiply_add(a[k][i], b[k][j], sums[i][j]);
      }
    }
    each_lane([&](const Operands& own) {
      for (int i = 0; i < TILE_VALUES; i++) own.sum(c).values[i] = sums[score_query(i)][score_key(i)];
    });
  }
}
#if WAVE == 1
template <class Operands, int C>
DEVICE void run_attention_product(const Operands& operands, int) {
  attention_product<Operands, C>([&](auto body) { body(operands); });
}
#else
template <class Operands, int C>
void attention_product_of_wave(void* const* operands) {
  attention_product<Operands, C>([&](auto body) {
    for (int lane = 0; lane < WAVE; lane++) {
      lanes::block().current = lane;
      body(*static_cast<const Operands*>(operands[lane]));
    }
  });
}
template <class Operands, int C>
inline void run_attention_product(const Operands& operands, int site) {
  lanes::run_together(attention_product_of_wave<Operands, C>, const_cast<Operands*>(&operands), site);
}
#endif
template <int N, int C>
inline void multiply_scores_at(int site, TileSum (&scores)[N], int first, const Fragment<half_t>& query,
                               const Fragment<half_t> (&keys)[C]) {
  run_attention_product<ScoreOperands<C>, C>(ScoreOperands<C>{scores + first, query, keys}, site);
}
template <int C>
inline void multiply_values_at(int site, TileSum (&sums)[C], const WeightTile& weights, const ValueTile (&values)[C]) {
  run_attention_product<ValueOperands<C>, C>(ValueOperands<C>{sums, weights, values}, site);
}
inline void add_weights_at(int site, TileSum& sums, const WeightTile& weights) {
  run_attention_product<ValueOperands<1>, 1>(ValueOperands<1>{&sums, weights, nullptr}, site);
}
DEVICE float weight_sum(const TileSum& sums, int h) {
  return sums.values[WAVE == 1 ? h * TILE : WAVE == 32 ? 2 * h : 0];
}

}  // namespace forge

#if WAVE != 1
#define multiply_tiles(...) multiply_tiles_at(__COUNTER__, __VA_ARGS__)
#endif
#define multiply_scores(...) multiply_scores_at(__COUNTER__, __VA_ARGS__)
#define multiply_values(...) multiply_values_at(__COUNTER__, __VA_ARGS__)
#define add_weights(...) add_weights_at(__COUNTER__, __VA_ARGS__)
