// attention_rows: attention_paged of tiles of consecutive rows of one slot, with the same bits
//
// For a CPU: the rows of a tile and the heads that share a KV head take each KV block together.
#include "forge/attention_rows.h"

namespace {
using namespace forge;

// Adds the head's sink, and writes the result.
template <int HEAD_DIM, int E>
DEVICE void finish(const TileQueries<HEAD_DIM>& tile, int query, Partial<E>& total, const float* sinks) {
  add_sink(total, sinks[head_of(tile, query)]);
  write_result<HEAD_DIM>(total, result_of(tile, query));
}

// Queries from .. from + count - 1 of a tile.
template <int HEAD_DIM, class T>
void attend_together(const TileQueries<HEAD_DIM>& tile, const PagedHead<T>& cache, Scoring scoring, const float* sinks,
                     int from, int count) {
  constexpr int MOST = tile_queries(HEAD_DIM);
  Partial<HEAD_DIM> totals[MOST], parts[MOST];
  typename CachedBlock<HEAD_DIM, T>::Type floats;
  alignas(64) float weights[MOST][KV_BLOCK_TOKENS];
  float corrections[MOST];
  const float* queries[MOST];
  int begins[MOST], ends[MOST];
  for (int i = 0; i < count; i++) {
    clear(totals[i]);
    queries[i] = query_of(tile, from + i);
    begins[i] = window_begin(position_of(tile, from + i), scoring.window);
    ends[i] = position_of(tile, from + i) + 1;
  }
  const auto score = [&](float* products, int) {
    if (scoring.softcap == 0.0f) {
      SIMD
      for (int token = 0; token < KV_BLOCK_TOKENS; token++) products[token] *= scoring.scale;
    } else {
      SIMD
      for (int token = 0; token < KV_BLOCK_TOKENS; token++) products[token] = score_of(products[token], scoring);
    }
  };
  // Positions never fall from one query to the next.
  const int begin = begins[0], end = ends[count - 1];
  for (int split = begin / SPLIT * SPLIT; split < end; split += SPLIT) {
    for (int i = 0; i < count; i++) clear(parts[i]);
    const int first = max_of(split, begin / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS), split_end = min_of(end, split + SPLIT);
    for (int block = first; block < split_end; block += KV_BLOCK_TOKENS) {
      const auto at = [&](const T* from) {
        return cached_vector<HEAD_DIM>(from, cache.block_table, block, cache.kv_heads, cache.kv_head);
      };
      const auto range_of = [&](int i) {
        return TokenRange{max_of(0, begins[i] - block), min_of(KV_BLOCK_TOKENS, ends[i] - block)};
      };
      load_block(floats, at(cache.k_cache));
      for_alike(count, range_of, [&](int i, TokenRange range, auto together) {
        constexpr int Q = decltype(together)::value;
        weigh<HEAD_DIM, Q>(weights + i, corrections + i, parts + i, floats, queries + i, range, score);
      });
      load_block(floats, at(cache.v_cache));
      for_alike(count, range_of, [&](int i, TokenRange range, auto together) {
        constexpr int Q = decltype(together)::value;
        add_values<Q>(parts + i, floats, weights + i, corrections + i, range);
      });
    }
    for (int i = 0; i < count; i++) {
      if (begins[i] < split + SPLIT && split < ends[i]) combine(totals[i], parts[i]);
    }
  }
  for (int i = 0; i < count; i++) finish(tile, from + i, totals[i], sinks);
}

// Grid: x = kv_heads, y = tiles.
template <int HEAD_DIM, class T>
DEVICE void attention_rows(Dim3 block, TileQueries<HEAD_DIM> tile, const T* __restrict k_cache,
                           const T* __restrict v_cache, const int32_t* __restrict tiles,
                           const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                           const int32_t* __restrict slots, int slot_words, const float* __restrict sinks,
                           Scoring scoring) {
  const int kv_head = block.x;
  tile.group = tile.heads / tile.kv_heads;
  tile.head = kv_head * tile.group;
  tile.row = tiles[2 * block.y];
  tile.position = row_position[tile.row];
  const int queries = tiles[2 * block.y + 1] * tile.group;
  const int32_t* block_table = block_table_of(slots, row_slot[tile.row], slot_words);
  const PagedHead<T> cache{k_cache, v_cache, block_table, tile.kv_heads, kv_head};
  if (queries == 1) {
    // It shares its keys with none.
    auto total = attend_context<HEAD_DIM>(cache, query_of(tile, 0), tile.position, scoring);
    finish(tile, 0, total, sinks);
    return;
  }
  constexpr int MOST = tile_queries(HEAD_DIM);
  for (int from = 0; from < queries; from += MOST) {
    attend_together(tile, cache, scoring, sinks, from, min_of(MOST, queries - from));
  }
}
}  // namespace

#define ATTENTION_ROWS(name, type, head_dim)                                                                       \
  KERNEL(name, const float* __restrict qkv, /* [tokens, heads + 2 * kv_heads, head_dim], q rotated */              \
         const type* __restrict k_cache,    /* [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]; q8_0: see kv_q8.h */ \
         const type* __restrict v_cache,    /* the same */                                                         \
         float* __restrict out,             /* [tokens, heads, head_dim] */                                        \
         const int32_t* __restrict tiles,   /* [tiles, 2], first row and number of rows */                         \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */     \
         int slot_words, const float* __restrict sinks,                              /* [heads] */                 \
         int heads, int kv_heads, int window, float scale, float softcap) {                                        \
    attention_rows<head_dim>(BLOCK_INDEX, {qkv, out, heads, kv_heads}, k_cache, v_cache, tiles, row_position,      \
                             row_slot, slots, slot_words, sinks, {scale, softcap, window});                        \
  }
#define ATTENTION_ROWS_F16(head_dim) ATTENTION_ROWS(attention_rows_f16_d##head_dim, forge::half_t, head_dim)
#define ATTENTION_ROWS_Q8_0(head_dim) ATTENTION_ROWS(attention_rows_q8_0_d##head_dim, forge::KvQ8, head_dim)

FORGE_ROWS_HEAD_DIMS(ATTENTION_ROWS_F16)
FORGE_ROWS_Q8_HEAD_DIMS(ATTENTION_ROWS_Q8_0)
