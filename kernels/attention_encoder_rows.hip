// attention_encoder_rows: attention_encoder of tiles of consecutive rows of one sequence, with the same bits
//
// For a CPU: the rows of a tile and the heads that share a KV head take sixteen keys and values at a time together.
#include "forge/attention_rows.h"

namespace {
using namespace forge;

// Attention of a sequence: `length` rows from position 0 on, each to those at most `reach` away, 0 for all.
struct Sight {
  const float* __restrict slopes;  // [heads]
  int length, reach;
  float scale;
};

// Queries from .. from + count - 1 of a tile.
template <int HEAD_DIM>
void attend_together(const TileQueries<HEAD_DIM>& tile, const Sight& sight, int from, int count) {
  constexpr int MOST = tile_queries(HEAD_DIM), CHUNK = KV_BLOCK_TOKENS;
  Partial<HEAD_DIM> totals[MOST];
  FloatBlock<HEAD_DIM> floats = {};
  alignas(64) float weights[MOST][CHUNK];
  float corrections[MOST];
  const float* queries[MOST];
  int begins[MOST], ends[MOST];
  for (int i = 0; i < count; i++) {
    const int position = position_of(tile, from + i);
    clear(totals[i]);
    queries[i] = query_of(tile, from + i);
    begins[i] = sight.reach == 0 ? 0 : max_of(0, position - sight.reach);
    ends[i] = sight.reach == 0 ? sight.length : min_of(sight.length, position + sight.reach + 1);
  }
  const size_t stride = static_cast<size_t>(tile.heads + 2 * tile.kv_heads) * HEAD_DIM;
  const float* keys = tile.qkv + (tile.row - tile.position) * stride +
                      static_cast<size_t>(tile.heads + tile.head / tile.group) * HEAD_DIM;
  const float* values = keys + static_cast<size_t>(tile.kv_heads) * HEAD_DIM;
  // Positions never fall from one query to the next. Chunks begin at multiples of their size, as in attention_encoder.
  for (int chunk = begins[0] / CHUNK * CHUNK; chunk < ends[count - 1]; chunk += CHUNK) {
    const int rows = min_of(CHUNK, sight.length - chunk);
    const auto range_of = [&](int i) {
      return TokenRange{max_of(0, begins[i] - chunk), min_of(CHUNK, ends[i] - chunk)};
    };
    load_rows(floats, keys + chunk * stride, stride, rows);
    for_alike(count, range_of, [&](int first, TokenRange range, auto together) {
      constexpr int Q = decltype(together)::value;
      const auto score = [&](float* products, int i) {
        const int distance = chunk - position_of(tile, from + first + i);
        const float slope = sight.slopes[head_of(tile, from + first + i)];
        SIMD
        for (int j = 0; j < CHUNK; j++) {
          const int away = distance + j;
          const float bias = -slope * static_cast<float>(away < 0 ? -away : away);
          products[j] = multiply_add(products[j], sight.scale, bias);
        }
      };
      weigh<HEAD_DIM, Q>(weights + first, corrections + first, totals + first, floats, queries + first, range, score);
    });
    load_rows(floats, values + chunk * stride, stride, rows);
    for_alike(count, range_of, [&](int i, TokenRange range, auto together) {
      constexpr int Q = decltype(together)::value;
      add_values<Q>(totals + i, floats, weights + i, corrections + i, range);
    });
  }
  for (int i = 0; i < count; i++) write_result<HEAD_DIM>(totals[i], result_of(tile, from + i));
}

// Grid: x = kv_heads, y = tiles.
template <int HEAD_DIM>
DEVICE void attention_encoder_rows(Dim3 block, TileQueries<HEAD_DIM> tile, const int32_t* __restrict tiles,
                                   const int32_t* __restrict row_position, const int32_t* __restrict row_end,
                                   Sight sight) {
  tile.group = tile.heads / tile.kv_heads;
  tile.head = block.x * tile.group;
  tile.row = tiles[2 * block.y];
  tile.position = row_position[tile.row];
  sight.length = row_end[tile.row] - (tile.row - tile.position);
  const int queries = tiles[2 * block.y + 1] * tile.group;
  constexpr int MOST = tile_queries(HEAD_DIM);
  for (int from = 0; from < queries; from += MOST) attend_together(tile, sight, from, min_of(MOST, queries - from));
}
}  // namespace

#define ATTENTION_ENCODER_ROWS(head_dim)                                                                         \
  KERNEL(attention_encoder_rows_d##head_dim,                                                                     \
         const float* __restrict qkv,            /* [tokens, heads + 2 * kv_heads, head_dim], q and k rotated */ \
         float* __restrict out,                  /* [tokens, heads, head_dim] */                                 \
         const int32_t* __restrict tiles,        /* [tiles, 2], first row and number of rows */                  \
         const int32_t* __restrict row_position, /* [tokens] */                                                  \
         const int32_t* __restrict row_end,      /* [tokens], the row behind the last one of its sequence */     \
         const float* __restrict slopes,         /* [heads] */                                                   \
         int heads, int kv_heads, int reach, float scale) {                                                      \
    attention_encoder_rows<head_dim>(BLOCK_INDEX, {qkv, out, heads, kv_heads}, tiles, row_position, row_end,     \
                                     {slopes, 0, reach, scale});                                                 \
  }

FORGE_ENCODER_TILE_HEAD_DIMS(ATTENTION_ENCODER_ROWS)
