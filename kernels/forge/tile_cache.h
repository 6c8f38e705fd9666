// The paged KV cache as attention on matrix units reads it: pieces of keys and corners of values, of f16 or of q8_0.
//
// What a q8_0 cache holds stays as it lies while it is on its way, and becomes f16 where it arrives.
#pragma once

#include "attention.h"
#include "kv_q8.h"
#include "words.h"

namespace forge {

// Four elements of a value vector at each of eight positions, as a cache holds them; and the same as f16, transposed:
// eight positions of each element.
DEVICE Words2 unpack(const Words2& halves) { return halves; }
template <class Four>
struct ValueCorner {
  Four positions[PIECE];
};
template <class Four>
DEVICE void transpose(Piece (&pieces)[4], const ValueCorner<Four>& corner) {
  UNROLL
  for (int word = 0; word < 4; word++) {
    const Words2 even_position = unpack(corner.positions[2 * word]),
                 odd_position = unpack(corner.positions[2 * word + 1]);
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
      const uint32_t even = even_position.w[pair], odd = odd_position.w[pair];
      pieces[2 * pair].words[word] = pick_bytes(even, odd, 0x05040100u);
      pieces[2 * pair + 1].words[word] = pick_bytes(even, odd, 0x07060302u);
    }
  }
}

// One sequence's part of a KV cache for one KV head, of which the positions first .. length - 1 may be read: those
// before a window may be in blocks that are free. T: half_t, or KvQ8 of kv_q8.h.
template <class T>
struct TileCache {
  const T *k, *v;
  const int32_t* block_table;
  int kv_heads, kv_head, first, length;
};
// The readable position nearest to one. What it stands for is multiplied by 0, and must be finite.
template <class T>
DEVICE int readable(const TileCache<T>& cache, int position) {
  return max_of(min_of(position, cache.length - 1), cache.first);
}
// The same of `COUNT` elements, where a head is not of whole strips; queries have zeros there.
template <int HEAD_DIM, int COUNT>
DEVICE int readable_element(int element) {
  return HEAD_DIM % STRIP == 0 ? element : min_of(element, HEAD_DIM - COUNT);
}
// Address of the key or, if `from` is cache.v, of the value of a position, in one of the context's blocks.
template <int HEAD_DIM>
DEVICE const half_t* vector_at(const TileCache<half_t>& cache, const half_t* from, int position) {
  const auto at = static_cast<unsigned>(position);
  const int block = cache.block_table[at / KV_BLOCK_TOKENS] * cache.kv_heads + cache.kv_head;
  return from + static_cast<size_t>(block) * (KV_BLOCK_TOKENS * HEAD_DIM) + at % KV_BLOCK_TOKENS * HEAD_DIM;
}
template <int HEAD_DIM>
DEVICE Piece load_vector(const TileCache<half_t>& cache, const half_t* from, int position, int element) {
  return load_aligned<Piece>(vector_at<HEAD_DIM>(cache, from, position) + element);
}
// Four elements of the values of eight positions, which are in one block.
template <int HEAD_DIM>
DEVICE ValueCorner<Words2> load_values(const TileCache<half_t>& cache, int position, int element) {
  const int block_first = readable(cache, position) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
  const half_t* values = vector_at<HEAD_DIM>(cache, cache.v, block_first) + element;
  ValueCorner<Words2> corner;
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    const int row = readable(cache, position + i) - block_first;
    corner.positions[i] = load_aligned<Words2>(values + static_cast<size_t>(row) * HEAD_DIM);
  }
  return corner;
}

// The same of a cache in q8_0: quant * scale, rounded to f16.
struct KvQ8Piece {
  KvQ8Four fours[PIECE / 4];
};
DEVICE Piece unpack(const KvQ8Piece& from) {
  Piece piece;
  UNROLL
  for (int i = 0; i < PIECE / 4; i++) {
    const Words2 halves = unpack(from.fours[i]);
    piece.words[2 * i] = halves.w[0];
    piece.words[2 * i + 1] = halves.w[1];
  }
  return piece;
}
template <int HEAD_DIM>
DEVICE KvQ8Piece fetch_vector(const TileCache<KvQ8>& cache, const KvQ8* from, int position, int element) {
  const KvQ8* block = kv_q8_block<HEAD_DIM>(from, cache.block_table, position, cache.kv_heads, cache.kv_head);
  KvQ8Piece piece;
  UNROLL
  for (int i = 0; i < PIECE / 4; i++) {
    piece.fours[i] = fetch_kv_q8<HEAD_DIM>(block, position % KV_BLOCK_TOKENS, element + 4 * i);
  }
  return piece;
}
template <int HEAD_DIM>
DEVICE Piece load_vector(const TileCache<KvQ8>& cache, const KvQ8* from, int position, int element) {
  return unpack(fetch_vector<HEAD_DIM>(cache, from, position, element));
}
template <int HEAD_DIM>
DEVICE ValueCorner<KvQ8Four> load_values(const TileCache<KvQ8>& cache, int position, int element) {
  const KvQ8* block =
      kv_q8_block<HEAD_DIM>(cache.v, cache.block_table, readable(cache, position), cache.kv_heads, cache.kv_head);
  ValueCorner<KvQ8Four> corner;
  UNROLL
  for (int i = 0; i < PIECE; i++) {
    corner.positions[i] = fetch_kv_q8<HEAD_DIM>(block, readable(cache, position + i) % KV_BLOCK_TOKENS, element);
  }
  return corner;
}

}  // namespace forge
