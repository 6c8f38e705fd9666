// attention_encoder_tile: attention_encoder of tiles of consecutive rows of one sequence, on GPUs
//
// The queries of a block share the keys and values that it brings to LDS. It goes through the keys twice: for each
// query's largest score, which is the same in any order, and for the weights e^(score - largest), which are added up in
// rising order of keys, alone and times the values. A query's bits so depend on its own sequence alone, and not on
// where its tile begins.
#include "forge/attention.h"

namespace {
using namespace forge;

constexpr int QUERIES = ENCODER_TILE_ROWS, KEYS = 32;
constexpr int SIDE = 16, OWN = 2;  // a thread has OWN * OWN scores, SIDE apart
static_assert(BLOCK == SIDE * SIDE && QUERIES == SIDE * OWN && KEYS == SIDE * OWN, "a thread for each four scores");
constexpr int PIECE = 4;  // elements that are loaded at a time, and that spread rows over the LDS banks
constexpr int WEIGHTS_PITCH = KEYS + 1;

// Elements of a head that lie in LDS at a time, of keys or of values.
template <int HEAD_DIM>
constexpr int PANEL = HEAD_DIM % 64 == 0 ? 64 : 32;

// Keys or values of one head of a sequence: rows `stride` elements apart.
struct Rows {
  const float* first;
  size_t stride;
  int count;
};

// Brings WIDTH elements, from `element` on, of COUNT rows to LDS; rows behind the last are zeros.
template <int COUNT, int WIDTH, int PITCH, class Lds>
DEVICE void fetch_rows(Lds lds, const Rows& rows, int row, int element) {
  constexpr int PIECES = WIDTH / PIECE;
  UNROLL
  for (int i = thread_id(); i < COUNT * PIECES; i += BLOCK) {
    const int r = i / PIECES, e = i % PIECES * PIECE;
    const float* from = rows.first + (row + r) * rows.stride + element + e;
    lds[(r * PITCH + e) / PIECE] = row + r < rows.count ? load_aligned<Floats4>(from) : Floats4{};
  }
}

// The products of a thread's queries and its keys of those from `key` on: all threads of a block together.
template <int HEAD_DIM, class Lds>
DEVICE void multiply_keys(float (&products)[OWN][OWN], Lds queries, Lds panel, const Rows& keys, int key) {
  constexpr int WIDTH = PANEL<HEAD_DIM>, PITCH = WIDTH + PIECE;
  const int q = thread_id() / SIDE, k = thread_id() % SIDE;
  UNROLL
  for (int i = 0; i < OWN * OWN; i++) products[i / OWN][i % OWN] = 0.0f;
  ROLLED
  for (int element = 0; element < HEAD_DIM; element += WIDTH) {
    block_sync();
    fetch_rows<KEYS, WIDTH, PITCH>(panel, keys, key, element);
    block_sync();
    // Else more is loaded ahead than there are registers.
    ROLLED
    for (int e = 0; e < WIDTH; e += PIECE) {
      Floats4 query[OWN], own[OWN];
      UNROLL
      for (int i = 0; i < OWN; i++) {
        query[i] = queries[((q + i * SIDE) * (HEAD_DIM + PIECE) + element + e) / PIECE];
        own[i] = panel[((k + i * SIDE) * PITCH + e) / PIECE];
      }
      UNROLL
      for (int i = 0; i < OWN * OWN; i++) {
        float& product = products[i / OWN][i % OWN];
        UNROLL
        for (int f = 0; f < PIECE; f++) product = multiply_add(query[i / OWN].f[f], own[i % OWN].f[f], product);
      }
    }
  }
}

// Grid: x = heads, y = tiles.
template <int HEAD_DIM>
DEVICE void attention_encoder_tile(Dim3 block, const float* __restrict qkv, float* __restrict out,
                                   const int32_t* __restrict tiles, const int32_t* __restrict row_position,
                                   const int32_t* __restrict row_end, const float* __restrict slopes, int heads,
                                   int kv_heads, int reach, float scale) {
  constexpr int WIDTH = PANEL<HEAD_DIM>, PITCH = WIDTH + PIECE, PANELS = HEAD_DIM / WIDTH;
  SHARED(Floats4, queries, (QUERIES * (HEAD_DIM + PIECE) / PIECE));
  SHARED(Floats4, panel, (KEYS * PITCH / PIECE));
  SHARED(float, weights, (QUERIES * WEIGHTS_PITCH));

  const int head = block.x, row = tiles[2 * block.y], count = tiles[2 * block.y + 1], position = row_position[row];
  const size_t stride = static_cast<size_t>(heads + 2 * kv_heads) * HEAD_DIM;
  const int start = row - position, length = row_end[row] - start;
  // Positions that some query of the tile sees.
  const int first = reach == 0 ? 0 : max_of(0, position - reach);
  const int end = reach == 0 ? length : min_of(length, position + count + reach);
  const Rows keys{qkv + start * stride + static_cast<size_t>(heads + head / (heads / kv_heads)) * HEAD_DIM, stride,
                  end};
  const Rows values{keys.first + static_cast<size_t>(kv_heads) * HEAD_DIM, stride, end};
  const Rows own{qkv + row * stride + static_cast<size_t>(head) * HEAD_DIM, stride, count};
  fetch_rows<QUERIES, HEAD_DIM, HEAD_DIM + PIECE>(queries, own, 0, 0);

  const int q = thread_id() / SIDE, k = thread_id() % SIDE;
  const float slope = slopes[head];
  // LOWEST where query i of this thread does not see the key, of which there may be none.
  const auto score = [&](float product, int i, int key) {
    const int query = position + q + i * SIDE, away = key - query, distance = away < 0 ? -away : away;
    const bool sees = key < end && q + i * SIDE < count && (reach == 0 || distance <= reach);
    return sees ? multiply_add(product, scale, -slope * static_cast<float>(distance)) : LOWEST;
  };

  float products[OWN][OWN], largest[OWN];
  UNROLL
  for (int i = 0; i < OWN; i++) largest[i] = LOWEST;
  for (int key = first; key < end; key += KEYS) {
    multiply_keys<HEAD_DIM>(products, queries, panel, keys, key);
    UNROLL
    for (int i = 0; i < OWN * OWN; i++) {
      largest[i / OWN] = max_of(largest[i / OWN], score(products[i / OWN][i % OWN], i / OWN, key + k + i % OWN * SIDE));
    }
  }
  UNROLL
  for (int mask = 1; mask < SIDE; mask <<= 1) {
    UNROLL
    for (int i = 0; i < OWN; i++) largest[i] = max_of(largest[i], shuffle_xor(largest[i], mask));
  }

  // A thread sums PIECE elements of every panel, of queries GROUPS apart.
  constexpr int COLUMNS = WIDTH / PIECE, GROUPS = BLOCK / COLUMNS, SUMMED = QUERIES / GROUPS;
  const int group = thread_id() / COLUMNS, column = thread_id() % COLUMNS * PIECE;
  float sums[SUMMED] = {};
  Floats4 totals[PANELS][SUMMED] = {};
  for (int key = first; key < end; key += KEYS) {
    multiply_keys<HEAD_DIM>(products, queries, panel, keys, key);
    UNROLL
    for (int i = 0; i < OWN * OWN; i++) {
      const float scored = score(products[i / OWN][i % OWN], i / OWN, key + k + i % OWN * SIDE);
      const float weight = scored == LOWEST ? 0.0f : exp_of(scored - largest[i / OWN]);
      weights[(q + i / OWN * SIDE) * WEIGHTS_PITCH + k + i % OWN * SIDE] = weight;
    }
    UNROLL
    for (int p = 0; p < PANELS; p++) {
      block_sync();
      fetch_rows<KEYS, WIDTH, PITCH>(panel, values, key, p * WIDTH);
      block_sync();
      ROLLED
      for (int j = 0; j < KEYS; j++) {
        const Floats4 value = panel[(j * PITCH + column) / PIECE];
        UNROLL
        for (int s = 0; s < SUMMED; s++) {
          const float weight = weights[(group + s * GROUPS) * WEIGHTS_PITCH + j];
          if (p == 0) sums[s] += weight;
          UNROLL
          for (int f = 0; f < PIECE; f++) totals[p][s].f[f] = multiply_add(weight, value.f[f], totals[p][s].f[f]);
        }
      }
    }
  }

  UNROLL
  for (int s = 0; s < SUMMED; s++) {
    const int query = group + s * GROUPS;
    if (query >= count) continue;
    const float inverse = inverse_of(sums[s]);
    UNROLL
    for (int p = 0; p < PANELS; p++) {
      UNROLL
      for (int f = 0; f < PIECE; f++) totals[p][s].f[f] *= inverse;
      store_aligned(out + (static_cast<size_t>(row + query) * heads + head) * HEAD_DIM + p * WIDTH + column,
                    totals[p][s]);
    }
  }
}
}  // namespace

#define ATTENTION_ENCODER_TILE(head_dim)                                                                           \
  KERNEL(attention_encoder_tile_d##head_dim,                                                                       \
         const float* __restrict qkv,            /* [tokens, heads + 2 * kv_heads, head_dim], q and k rotated */   \
         float* __restrict out,                  /* [tokens, heads, head_dim] */                                   \
         const int32_t* __restrict tiles,        /* [tiles, 2]: the first row of each, and how many */             \
         const int32_t* __restrict row_position, /* [tokens] */                                                    \
         const int32_t* __restrict row_end,      /* [tokens], the row behind the last one of its sequence */       \
         const float* __restrict slopes,         /* [heads] */                                                     \
         int heads, int kv_heads, int reach, float scale) {                                                        \
    attention_encoder_tile<head_dim>(BLOCK_INDEX, qkv, out, tiles, row_position, row_end, slopes, heads, kv_heads, \
                                     reach, scale);                                                                \
  }

FORGE_ENCODER_TILE_HEAD_DIMS(ATTENTION_ENCODER_TILE)
