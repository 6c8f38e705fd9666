// Tiles on NVIDIA's tensor cores (sm_80 and later): four m16n8k16 a tile. Lane 4 g + t holds elements 8 t .. 8 t + 7 of
// rows g and g + 8; one instruction takes the first four of each eight, the next the last four.
#pragma once

namespace forge {

constexpr int FRAGMENT_PIECES = 2, FRAGMENT_ROWS = 2, TILE_VALUES = 8, TILE_COLUMN_LANES = 4;
DEVICE int piece_row(int p, int lane = lane_id()) { return lane / 4 + 8 * p; }
DEVICE int piece_k(int, int lane = lane_id()) { return lane % 4 * PIECE; }
DEVICE int value_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
DEVICE int value_column(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

template <class T>
struct Fragment {
  Piece pieces[FRAGMENT_PIECES];
};
struct TileSum {
  float values[TILE_VALUES];
};

DEVICE Piece load_piece(const void* p) {
  Piece piece;
  // In the order in which they stand here; __ldg is for what no step writes.
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.words[0]), "=r"(piece.words[1]), "=r"(piece.words[2]), "=r"(piece.words[3])
               : "l"(p));
  return piece;
}
// For what is read once: may leave the caches first.
DEVICE Piece stream_piece(const void* p) {
  const uint4 v = __ldcs(static_cast<const uint4*>(p));
  return Piece{{v.x, v.y, v.z, v.w}};
}

#define FORGE_MMA(type, c, a0, a1, a2, a3, b0, b1)                                    \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])               \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

template <class T>
constexpr bool IS_HALF = false;
template <>
constexpr bool IS_HALF<half_t> = true;

// An instruction takes the words of both rows in one run of registers, where no load puts them. Left to itself the
// compiler moves them there again for every product; it does not see that an exclusive or with 0 is a move: blocks are
// of one row of threads, so threadIdx.y is always 0.
DEVICE uint32_t moved(uint32_t word) { return word ^ threadIdx.y; }

// Products that add to one sum lie far apart, because each waits for the one before it.
template <int R, int C, class T>
DEVICE void multiply_tiles(TileSum (&sums)[C][R], const Fragment<T> (&a)[R], const Fragment<T> (&b)[C]) {
  UNROLL
  for (int half = 0; half < 4; half += 2) {
    UNROLL
    for (int r = 0; r < R; r++) {
      const Piece &low = a[r].pieces[0], &high = a[r].pieces[1];
      const uint32_t a0 = moved(low.words[half]), a1 = moved(high.words[half]);
      const uint32_t a2 = moved(low.words[half + 1]), a3 = moved(high.words[half + 1]);
      UNROLL
      for (int i = 0; i < 2 * C; i++) {
        const Piece& x = b[i / 2].pieces[i % 2];
        float* sum = sums[i / 2][r].values + i % 2 * 4;
        if constexpr (IS_HALF<T>) {
          FORGE_MMA("f16", sum, a0, a1, a2, a3, x.words[half], x.words[half + 1]);
        } else {
          FORGE_MMA("bf16", sum, a0, a1, a2, a3, x.words[half], x.words[half + 1]);
        }
      }
    }
  }
}

// Attention. The sums of a product of queries and keys lie as the first operand of the next product does.
constexpr int QUERIES_HELD = 2, QUERY_LANES = 4, QUERY_LANE_STEP = 1;
constexpr bool VALUES_PAIRED = true, HOLDS_QUERIES = true;
DEVICE int score_query(int i) { return value_row(i); }
DEVICE int score_key(int i) { return value_column(i); }
DEVICE constexpr int held_index(int i) { return i / 2 % 2; }
DEVICE int held_query(int h) { return lane_id() / 4 + 8 * h; }

template <int N, int C>
DEVICE void multiply_scores(TileSum (&scores)[N], int first, const Fragment<half_t>& query,
                            const Fragment<half_t> (&keys)[C]) {
  const Piece &low = query.pieces[0], &high = query.pieces[1];
  UNROLL
  for (int half = 0; half < 4; half += 2) {
    UNROLL
    for (int i = 0; i < 2 * C; i++) {
      const Piece& key = keys[i / 2].pieces[i % 2];
      FORGE_MMA("f16", scores[first + i / 2].values + i % 2 * 4, low.words[half], high.words[half], low.words[half + 1],
                high.words[half + 1], key.words[half], key.words[half + 1]);
    }
  }
}

DEVICE uint32_t to_halves(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t word;
  __builtin_memcpy(&word, &pair, 4);
  return word;
}

struct WeightTile {
  uint32_t words[4];
};
DEVICE WeightTile to_weights(const TileSum& scores) {
  WeightTile weights;
  UNROLL
  for (int i = 0; i < 4; i++) weights.words[i] = to_halves(scores.values[2 * i], scores.values[2 * i + 1]);
  return weights;
}

struct ValueTile {
  uint32_t words[4];
};
// Values of positions key .. key + 15 and elements element .. element + 15 of a strip.
DEVICE ValueTile load_value_tile(const Piece* strip, int, int key, int element, int lane) {
  const Piece* from = strip + strip_slot(key + lane % 16, element / PIECE + lane / 16);
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  ValueTile tile;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile.words[0]), "=r"(tile.words[1]), "=r"(tile.words[2]), "=r"(tile.words[3])
               : "r"(at)
               : "memory");
  return tile;
}

template <int C>
DEVICE void multiply_values(TileSum (&sums)[C], const WeightTile& weights, const ValueTile (&values)[C]) {
  const uint32_t(&w)[4] = weights.words;
  UNROLL
  for (int i = 0; i < 2 * C; i++) {
    const uint32_t* v = values[i / 2].words + i % 2 * 2;
    FORGE_MMA("f16", sums[i / 2].values + i % 2 * 4, w[0], w[1], w[2], w[3], v[0], v[1]);
  }
}
DEVICE void add_weights(TileSum& sums, const WeightTile& weights) {
  const uint32_t(&w)[4] = weights.words;
  const uint32_t ones = 0x3c003c00;
  FORGE_MMA("f16", sums.values, w[0], w[1], w[2], w[3], ones, ones);
}
DEVICE float weight_sum(const TileSum& sums, int h) { return sums.values[2 * h]; }
#undef FORGE_MMA

}  // namespace forge
