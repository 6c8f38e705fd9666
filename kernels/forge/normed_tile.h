// Products of one row on matrix units, with the bits of the forms for more: its norm in 16 bits, as rms_norm_convert
// leaves it, by each block that multiplies it. See normed.h.
#pragma once

#include "linear_tile.h"
#include "norm.h"

namespace forge {

// The row in LDS, and the element of it that a chunk begins with.
template <class Lds>
struct NormedChunk {
  Lds pieces;
  int first;
};
template <bool WHOLE, class T, class Lds>
DEVICE void load_tokens(Fragment<T> (&fragments)[1], const NormedChunk<Lds>& chunk, int ahead, int elements = 0) {
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    if (WHOLE || piece_k(p) < elements) {
      fragments[0].pieces[p] = chunk.pieces[(chunk.first + ahead * TILE_DEPTH + piece_k(p)) / PIECE];
    } else {
      fragments[0].pieces[p] = zero_piece();
    }
  }
}
template <class Lds>
DEVICE void advance(NormedChunk<Lds>& chunk, int chunks) {
  chunk.first += chunks * TILE_DEPTH;
}

// A row's norm, of NORMED_MOST elements at most, and what it is multiplied with: the job is that of linear_tile.h, less
// its x.
template <class T, class Lds>
struct NormedTile {
  Lds pieces;
  NormInput input;
};
template <class T, class Lds>
DEVICE void normalize_tile(const NormedTile<T, Lds>& row, int in) {
  wait_for_inputs();
  const NormInput& input = row.input;
  const float scale = inv_rms_of_parts(input.parts, in, input.eps);
  for (int p = thread_id(); p < in / PIECE; p += BLOCK) {
    T elements[PIECE];
    UNROLL
    for (int i = 0; i < PIECE; i += 4) {
      const auto x = load_aligned<Floats4>(input.x + p * PIECE + i);
      const auto weight = load_aligned<Floats4>(input.weight + p * PIECE + i);
      UNROLL
      for (int j = 0; j < 4; j++) store(elements + i + j, x.f[j] * scale * weight.f[j]);
    }
    Piece piece;
    __builtin_memcpy(&piece, elements, sizeof(piece));
    row.pieces[p] = piece;
  }
  block_sync();
}

}  // namespace forge
