// matmul_heads_tile: y[t][h] = weight[h] · x[h][t] on matrix units: what heads of latent attention multiply before and
// after it
//
// A block has OUTS rows of a head's matrix in LDS, as f16, and multiplies rows of x, which become f16, too. An element
// is one chain of products over k: a row's bits do not depend on how many rows there are.
#include "forge/attention_tile.h"
#include "forge/grid_blocks.h"

namespace {
using namespace forge;

constexpr int OUTS = HEADS_TILE_OUTS, ROWS = HEADS_TILE_ROWS, MOST_STRIPS = HEADS_TILE_MOST_IN / STRIP;
constexpr int WEIGHT_STRIP = OUTS * STRIP_PITCH, STRIP_DEPTHS = STRIP / TILE_DEPTH;

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

// Grid: x = ceil(out / OUTS), y = ceil(rows / ROWS), z = heads.
template <class F>
DEVICE void matmul_heads_tile(Dim3 block, const uint8_t* __restrict weight, const float* __restrict x,
                              float* __restrict y, const int32_t* __restrict tokens, int out, int in, int y_stride,
                              int head_stride) {
  SHARED(Piece, strips, (MOST_STRIPS * WEIGHT_STRIP));
  const int rows = *tokens, first_row = block.y * ROWS;
  if (first_row >= rows) return;
  const int head = block.z, first_out = block.x * OUTS, outs = min_of(out - first_out, OUTS), pieces = in / PIECE;
  const size_t row_bytes = static_cast<size_t>(in / F::ELEMENTS) * F::BYTES;
  const uint8_t* matrix = weight + (static_cast<size_t>(head) * out + first_out) * row_bytes;
  for (int i = thread_id(); i < OUTS * pieces; i += BLOCK) {
    const int n = i / pieces, p = i % pieces;
    const uint8_t* from = matrix + min_of(n, outs - 1) * row_bytes;
    half_t elements[PIECE];
    UNROLL
    for (int j = 0; j < PIECE; j++) elements[j] = half_at<F>(from, p * PIECE + j);
    Piece piece;
    __builtin_memcpy(&piece, elements, sizeof(Piece));
    strips[p / STRIP_PIECES * WEIGHT_STRIP + strip_slot(n, p % STRIP_PIECES)] = piece;
  }
  block_sync();

  const float* inputs = x + static_cast<size_t>(head) * rows * in;
  float* outputs = y + static_cast<size_t>(head) * head_stride + first_out;
  for (int tile = wave_id(); tile < ROWS / TILE; tile += WAVES) {
    const int row = first_row + tile * TILE, count = rows - row;
    if (count <= 0) return;
    TileSum sums[OUTS / TILE];
    UNROLL
    for (int j = 0; j < OUTS / TILE; j++) clear(sums[j]);
    for (int d = 0; d < in / TILE_DEPTH; d++) {
      Fragment<half_t> own, weights[OUTS / TILE];
      UNROLL
      for (int p = 0; p < FRAGMENT_PIECES; p++) {
        const int from = row + min_of(piece_row(p), count - 1);
        own.pieces[p] = to_piece(inputs + static_cast<size_t>(from) * in + d * TILE_DEPTH + piece_k(p));
      }
      const auto strip = strips + d / STRIP_DEPTHS * WEIGHT_STRIP;
      UNROLL
      for (int j = 0; j < OUTS / TILE; j++) load_strip(weights[j], strip, j * TILE, d % STRIP_DEPTHS * TILE_DEPTH);
      multiply_scores(sums, 0, own, weights);
    }
    float* to[QUERIES_HELD];
    UNROLL
    for (int h = 0; h < QUERIES_HELD; h++) to[h] = outputs + static_cast<size_t>(row + held_query(h)) * y_stride;
    UNROLL
    for (int j = 0; j < OUTS / TILE; j++) {
      if (j * TILE >= outs) continue;
      store_elements(to, count, j * TILE, [&](int i) { return sums[j].values[i]; });
    }
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
