// matmul_heads_tile: y[t][h] = weight[h] · x[h][t] on matrix units: what heads of latent attention multiply before and
// after it
//
// A block has sixteen rows of a head's matrix in LDS, as f16, and multiplies rows of x, which become f16, too. An
// element is one chain of products over k: a row's bits do not depend on how many rows there are.
#include "forge/attention_tile.h"
#include "forge/grid_blocks.h"

namespace {
using namespace forge;

constexpr int ROWS = HEADS_TILE_ROWS, MOST_PIECES = HEADS_TILE_MOST_IN / PIECE;
constexpr int WEIGHT_STRIP = TILE * STRIP_PITCH, STRIP_DEPTHS = STRIP / TILE_DEPTH;
static_assert(HEADS_TILE_OUTS == TILE && MOST_PIECES % STRIP_PIECES == 0, "a tile of outputs, whole strips");
// Products whose rows of x a wave asks for at a time, and pieces of weights of a thread.
constexpr int ASKED = 2, OWN_PIECES = TILE * MOST_PIECES / BLOCK;
static_assert(OWN_PIECES * BLOCK == TILE * MOST_PIECES, "whole shares");

// A row of the file's halves; blocks are those of blocks.h.
struct Halves {
  static constexpr int ELEMENTS = 1, BYTES = sizeof(half_t);
};
template <class F>
DEVICE half_t half_at(const uint8_t* row, int i) {
  if constexpr (F::ELEMENTS == 1) {
    return reinterpret_cast<const half_t*>(row)[i];
  } else {
    return to_half(dequantize<F>(row, i));
  }
}

// Sixteen rows of x for ASKED products, from `depth` on of `depths`. Rows past the last are there as the last.
DEVICE void ask_rows(Fragment<half_t> (&rows)[ASKED], const float* x, int count, int in, int depth, int depths) {
  UNROLL
  for (int a = 0; a < ASKED; a++) {
    UNROLL
    for (int p = 0; p < FRAGMENT_PIECES; p++) {
      const int row = min_of(piece_row(p), count - 1),
                element = min_of(depth + a, depths - 1) * TILE_DEPTH + piece_k(p);
      rows[a].pieces[p] = to_piece(x + static_cast<size_t>(row) * in + element);
    }
  }
}

// Grid: x = out / TILE, y = ceil(rows / ROWS), z = heads.
template <class F>
DEVICE void matmul_heads_tile(Dim3 block, const uint8_t* __restrict weight, const float* __restrict x,
                              float* __restrict y, const int32_t* __restrict tokens, int out, int in, int y_stride,
                              int head_stride) {
  SHARED(Piece, strips, (MOST_PIECES / STRIP_PIECES * WEIGHT_STRIP));
  const int rows = *tokens, first_row = block.y * ROWS;
  if (first_row >= rows) return;
  const int head = block.z, first_out = block.x * TILE, pieces = in / PIECE, depths = in / TILE_DEPTH;
  const size_t row_bytes = static_cast<size_t>(in / F::ELEMENTS) * F::BYTES;
  const uint8_t* matrix = weight + (static_cast<size_t>(head) * out + first_out) * row_bytes;
  const float* inputs = x + static_cast<size_t>(head) * rows * in;
  const auto tile_row = [&](int tile) { return first_row + tile * TILE; };
  // The first rows of x and the weights are asked for at once.
  Fragment<half_t> own[ASKED];
  if (tile_row(wave_id()) < rows) {
    const int row = tile_row(wave_id());
    ask_rows(own, inputs + static_cast<size_t>(row) * in, rows - row, in, 0, depths);
  }
  Piece held[OWN_PIECES];
  UNROLL
  for (int k = 0; k < OWN_PIECES; k++) {
    const int i = min_of(k * BLOCK + thread_id(), TILE * pieces - 1);
    half_t elements[PIECE];
    UNROLL
    for (int j = 0; j < PIECE; j++) elements[j] = half_at<F>(matrix + i / pieces * row_bytes, i % pieces * PIECE + j);
    __builtin_memcpy(&held[k], elements, sizeof(Piece));
    schedule_here();
  }
  UNROLL
  for (int k = 0; k < OWN_PIECES; k++) {
    const int i = k * BLOCK + thread_id(), p = i % pieces;
    if (i < TILE * pieces) strips[p / STRIP_PIECES * WEIGHT_STRIP + strip_slot(i / pieces, p % STRIP_PIECES)] = held[k];
  }
  block_sync();

  float* outputs = y + static_cast<size_t>(head) * head_stride + first_out;
  for (int tile = wave_id(); tile < ROWS / TILE; tile += WAVES) {
    const int row = tile_row(tile), count = rows - row;
    if (count <= 0) return;
    const float* from = inputs + static_cast<size_t>(row) * in;
    if (tile >= WAVES) ask_rows(own, from, count, in, 0, depths);
    TileSum sums[1];
    clear(sums[0]);
    for (int d = 0; d < depths; d += ASKED) {
      Fragment<half_t> next[ASKED];
      if (d + ASKED < depths) ask_rows(next, from, count, in, d + ASKED, depths);
      UNROLL
      for (int a = 0; a < ASKED; a++) {
        if (d + a >= depths) continue;
        Fragment<half_t> weights[1];
        load_strip(weights[0], strips + (d + a) / STRIP_DEPTHS * WEIGHT_STRIP, 0, (d + a) % STRIP_DEPTHS * TILE_DEPTH,
                   lane_id_anew());
        multiply_scores(sums, 0, own[a], weights);
      }
      UNROLL
      for (int a = 0; a < ASKED; a++) own[a] = next[a];
    }
    float* to[QUERIES_HELD];
    UNROLL
    for (int h = 0; h < QUERIES_HELD; h++) to[h] = outputs + static_cast<size_t>(row + held_query(h)) * y_stride;
    store_elements(to, count, 0, [&](int i) { return sums[0].values[i]; });
  }
}
}  // namespace

#define MATMUL_HEADS_TILE(name, Format)                                                                              \
  KERNEL(name, const uint8_t* __restrict weight, /* [heads, out, in], Format */                                      \
         const float* __restrict x,              /* [heads, rows, in] */                                             \
         float* __restrict y,                    /* [rows, heads, out], rows y_stride and heads head_stride apart */ \
         const int32_t* __restrict tokens,       /* [1] */                                                           \
         int out, int in, int y_stride, int head_stride) {                                                           \
    matmul_heads_tile<Format>(BLOCK_INDEX, weight, x, y, tokens, out, in, y_stride, head_stride);                    \
  }
#define MATMUL_HEADS_TILE_FORMAT(type, Name) MATMUL_HEADS_TILE(matmul_heads_tile_##type, forge::Block##Name)

MATMUL_HEADS_TILE(matmul_heads_tile_f16, Halves)
FORGE_BLOCK_FORMATS(MATMUL_HEADS_TILE_FORMAT)
