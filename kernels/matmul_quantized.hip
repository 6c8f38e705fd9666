// matmul_quantized: y[t][n] = sum_k weight[n][k] * x[t][k], weight in the blocks of its file, x as quantize_q8 makes it
//
// The products of quants are summed as whole numbers and scaled block by block. An element's order of summation depends
// on k alone, so a row's bits do not depend on how many rows there are.
#include "forge/dot_quant.h"
#include "forge/experts.h"

namespace {
using namespace forge;

// Rows of the weight and of x that one block multiplies.
constexpr int ROWS = MATMUL_QUANTIZED_ROWS, TOKENS = MATMUL_QUANTIZED_TOKENS;

// Grid: x = ceil(out / ROWS), y = ceil(tokens / TOKENS).
template <class F>
DEVICE void matmul_quantized(Dim3 block, const uint8_t* __restrict weight, const uint8_t* __restrict x,
                             float* __restrict y, const int32_t* __restrict tokens, int out, int blocks, int y_stride) {
  const int first_token = block.y * TOKENS, last_token = min_of(*tokens, first_token + TOKENS);
  if (first_token >= last_token) return;
  const int first = block.x * ROWS, last = min_of(out, first + ROWS);
  multiply_rows<F>(weight, static_cast<size_t>(blocks) * F::BYTES, blocks * F::ELEMENTS, x, first_token, last_token, y,
                   y_stride, first, last);
}
}  // namespace

#define MATMUL_QUANTIZED(name, Format)                                                         \
  KERNEL(name, const uint8_t* __restrict weight, /* [out, blocks], Format */                   \
         const uint8_t* __restrict x,            /* [tokens, in / 32, 40], see q8.h */         \
         float* __restrict y,                    /* [tokens, out], rows y_stride apart */      \
         const int32_t* __restrict tokens,       /* [1] */                                     \
         int out, int blocks, int y_stride) {                                                  \
    matmul_quantized<forge::Format>(BLOCK_INDEX, weight, x, y, tokens, out, blocks, y_stride); \
  }
#define MATMUL_QUANTIZED_FORMAT(type, Name) MATMUL_QUANTIZED(matmul_##type, Block##Name)

FORGE_BLOCK_FORMATS(MATMUL_QUANTIZED_FORMAT)

// Product of each expert's matrix and its run of rows. Grid: x = ceil(out / ROWS), y = ceil(tokens / TOKENS), z =
// experts: neighbours read on.
#define MATMUL_EXPERTS(name, Format)                                                                              \
  KERNEL(name, const uint8_t* __restrict weight, /* [experts, out, blocks], Format */                             \
         const uint8_t* __restrict x,            /* [places, in / 32, 40], see q8.h */                            \
         float* __restrict y,                    /* [places, out], rows y_stride apart */                         \
         const int32_t* __restrict runs,         /* [experts, 3], see experts.h */                                \
         int out, int blocks, int y_stride) {                                                                     \
    using F = forge::Format;                                                                                      \
    const forge::Dim3 block = BLOCK_INDEX;                                                                        \
    const forge::Run run = forge::run_at(runs, block.z);                                                          \
    matmul_quantized<F>(                                                                                          \
        forge::Dim3{block.x, block.y, 0}, weight + static_cast<size_t>(run.expert) * out * blocks * F::BYTES,     \
        x + run.first * forge::q8_row_bytes(blocks * F::ELEMENTS), y + static_cast<size_t>(run.first) * y_stride, \
        forge::run_count(runs, block.z), out, blocks, y_stride);                                                  \
  }
#define MATMUL_EXPERTS_FORMAT(type, Name) MATMUL_EXPERTS(matmul_experts_##type, Block##Name)

FORGE_BLOCK_FORMATS(MATMUL_EXPERTS_FORMAT)

// The same in the order of matmul_packed on a GPU with waves of so many lanes: experts that the host computes for it.
#define MATMUL_LANES_EXPERTS(name, Format)                                                                 \
  KERNEL(name, const uint8_t* __restrict weight, /* [experts, out, blocks], Format */                      \
         const uint8_t* __restrict x,            /* [places, in / 32, 40], see q8.h */                     \
         float* __restrict y,                    /* [places, out], rows y_stride apart */                  \
         const int32_t* __restrict runs,         /* [experts, 3], see experts.h */                         \
         int out, int blocks, int y_stride, int lanes) {                                                   \
    using F = forge::Format;                                                                               \
    const forge::Dim3 block = BLOCK_INDEX;                                                                 \
    const forge::Run run = forge::run_at(runs, block.z);                                                   \
    const int first_token = block.y * TOKENS, last_token = forge::min_of(run.count, first_token + TOKENS); \
    if (first_token >= last_token) return;                                                                 \
    const int first = block.x * ROWS, last = forge::min_of(out, first + ROWS), in = blocks * F::ELEMENTS;  \
    const size_t row_bytes = static_cast<size_t>(blocks) * F::BYTES;                                       \
    const auto multiply = lanes == 64 ? forge::multiply_rows<F, 64> : forge::multiply_rows<F, 32>;         \
    multiply(weight + static_cast<size_t>(run.expert) * out * row_bytes, row_bytes, in,                    \
             x + run.first * forge::q8_row_bytes(in), first_token, last_token,                             \
             y + static_cast<size_t>(run.first) * y_stride, y_stride, first, last);                        \
  }
#define MATMUL_LANES_EXPERTS_FORMAT(type, Name) MATMUL_LANES_EXPERTS(matmul_lanes_experts_##type, Block##Name)

FORGE_HOST_PACKED_FORMATS(MATMUL_LANES_EXPERTS_FORMAT)

// Product of each head's matrix and its rows, which follow each other. Grid: x = ceil(out / ROWS), y = ceil(tokens /
// TOKENS), z = heads.
#define MATMUL_HEADS(name, Format)                                                                              \
  KERNEL(name, const uint8_t* __restrict weight, /* [heads, out, blocks], Format */                             \
         const uint8_t* __restrict x,            /* [heads, tokens, in / 32, 40], see q8.h */                   \
         float* __restrict y,                    /* [tokens, heads, out], y_stride and head_stride apart */     \
         const int32_t* __restrict tokens,       /* [1] */                                                      \
         int out, int blocks, int y_stride, int head_stride) {                                                  \
    using F = forge::Format;                                                                                    \
    const forge::Dim3 block = BLOCK_INDEX;                                                                      \
    const size_t head = block.z;                                                                                \
    matmul_quantized<F>(forge::Dim3{block.x, block.y, 0}, weight + head * out * blocks * F::BYTES,              \
                        x + head * *tokens * forge::q8_row_bytes(blocks * F::ELEMENTS), y + head * head_stride, \
                        tokens, out, blocks, y_stride);                                                         \
  }
#define MATMUL_HEADS_FORMAT(type, Name) MATMUL_HEADS(matmul_heads_##type, Block##Name)

FORGE_BLOCK_FORMATS(MATMUL_HEADS_FORMAT)
