// Matrix units: a wave multiplies tiles of sixteen rows of 16-bit floats and sums in f32.
//
//   Fragment<T>                       16 rows of TILE_DEPTH elements, spread over the lanes of a wave
//   TileSum                           16 x 16 f32, likewise
//   FRAGMENT_ROWS                     rows that a lane has pieces of; FRAGMENT_PIECES / FRAGMENT_ROWS of each
//   TILE_COLUMN_LANES                 lanes that share rows of a TileSum: those that differ in the lowest bits
//   multiply_tiles(sums, a, b)        for each fragment r of a and c of b: sums[c][r][i][j] += sum_k a[r][i][k] *
//   b[c][j][k];
//                                     all lanes of a wave together
//
// For attention, whose scores become an operand where they lie:
//   multiply_scores(scores, first, query, keys)
//                                     scores[first + c] += the products of sixteen queries and the sixteen keys of
//                                     keys[c], in the order of multiply_tiles. Value i of such a sum is of query
//                                     score_query(i) and key score_key(i)
//   HOLDS_QUERIES                     whether there are registers for queries, all the time
//   QUERIES_HELD                      queries that a lane has scores of: held_query(h); value i is of held_index(i).
//                                     Lanes that hold the same ones differ in QUERY_LANES steps of QUERY_LANE_STEP
//   WeightTile, to_weights(scores)    scores of sixteen keys, rounded to f16, as the operand of a product over keys
//   ValueTile, load_value_tile        sixteen elements of the values of sixteen keys, from LDS, as the other operand
//   multiply_values(sums, weights, values)
//                                     sums[c] += the sum over sixteen keys of weight * value; value i of it is of
//                                     query score_query(i) and element score_key(i)
//   add_weights(sums, weights)        the same for values of 1; weight_sum(sums, h) is that of held query h
//
// Which lane holds what is each target's own affair: a lane holds FRAGMENT_PIECES runs of eight elements, run p from
// row piece_row(p) and element piece_k(p) on, and TILE_VALUES sums, the i-th of row value_row(i) of a and row
// value_column(i) of b. So every lane loads sixteen bytes at once. The unit takes the elements of a and b in another
// order than they lie in memory, but always in the same one, and an element of the sum depends on its own rows alone:
// kernels that bring a row's fragments in the same order get the same bits.
#pragma once

#include "contract.h"
#include "device.h"

// Tiles without matrix units: RDNA 2 and Vega, and in tests simulated lanes.
#if defined(__GFX10__) || defined(__gfx906__)
#define FORGE_TILE_DOTS
#endif

namespace forge {

constexpr int TILE = 16, TILE_DEPTH = 32;

// Products without matrix units take more registers.
#if defined(FORGE_TILE_DOTS)
constexpr bool TILES_BY_DOTS = true;
#else
constexpr bool TILES_BY_DOTS = false;
#endif

// Eight 16-bit elements.
struct alignas(16) Piece {
  uint32_t words[4];
};
constexpr int PIECE = TILE_INPUT_MULTIPLE, ROW_PIECES = TILE_DEPTH / PIECE;

// Keys and values lie in LDS as strips of STRIP elements of some positions, and values transposed, as rows of
// positions, where units of a product take neighbouring positions of one element. Rows are padded by a piece, or else,
// where asynchronous copies fill LDS to its last byte, pieces change places: eight neighbouring rows meet no bank
// twice.
constexpr int STRIP = 64, STRIP_PIECES = STRIP / PIECE;
#if defined(__CUDACC__) || WAVE == 1 || (defined(FORGE_LANES) && WAVE == 32 && !defined(FORGE_TILE_DOTS))
constexpr bool TRANSPOSES_VALUES = false;
constexpr int STRIP_PITCH = STRIP_PIECES;
DEVICE int strip_slot(int row, int p) { return row * STRIP_PITCH + (p ^ (row % 2 * 4 + row / 2 % 4)); }
#else
constexpr bool TRANSPOSES_VALUES = true;
constexpr int STRIP_PITCH = STRIP_PIECES + 1;
DEVICE int strip_slot(int row, int p) { return row * STRIP_PITCH + p; }
#endif

}  // namespace forge

#if defined(__CUDACC__)
#include "tile_cuda.h"
#elif defined(__HIP__) || defined(FORGE_TILE_DOTS)
#include "tile_amd.h"
#else
#include "tile_cpu.h"
#endif

namespace forge {

DEVICE Piece zero_piece() { return Piece{{0, 0, 0, 0}}; }
DEVICE void clear(TileSum& sum) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) sum.values[i] = 0.0f;
}
DEVICE void add(TileSum& total, const TileSum& sum) {
  UNROLL
  for (int i = 0; i < TILE_VALUES; i++) total.values[i] += sum.values[i];
}

// Position of piece p of a row among the pieces of rows in LDS: neighbouring lanes, be they of one row or of one p,
// then meet no bank twice.
DEVICE int piece_slot(int row, int p) { return row * ROW_PIECES + (p ^ (row / 2 % ROW_PIECES)); }

// Position of a lane's pieces of sixteen rows in LDS, the first of which is `first_row`, a multiple of eight. Loops
// hold it: to compute it anew takes six instructions a load, beside a product that takes the time of eight.
struct FragmentPlaces {
  int slots[FRAGMENT_PIECES];
};
DEVICE FragmentPlaces fragment_places(int first_row) {
  FragmentPlaces places;
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) {
    places.slots[p] = first_row * ROW_PIECES + piece_slot(piece_row(p), piece_k(p) / PIECE);
  }
  return places;
}
template <class T, class Lds>
DEVICE void load_fragment(Fragment<T>& fragment, Lds rows, const FragmentPlaces& places) {
  UNROLL
  for (int p = 0; p < FRAGMENT_PIECES; p++) fragment.pieces[p] = rows[places.slots[p]];
}

}  // namespace forge
