// matmul: y[t][n] = sum_k weight[n][k] * x[t][k]
//
// The linear layer for any number of rows. Each output element is one dot product in one fixed order, so a row's bits
// do not depend on how many rows there are. A wave owns a row of the weight and reads it once for MATMUL_TOKENS rows of
// x; on the host a block owns several rows.
#include "forge/experts.h"
#include "forge/matmul.h"

KERNEL(matmul_f32, const float* __restrict weight,  // [out, in]
       const float* __restrict x,                   // [tokens, in], rows x_stride apart
       float* __restrict y,                         // [tokens, out], rows y_stride apart
       const int32_t* __restrict tokens,            // [1]
       int out, int in, int x_stride, int y_stride) {
  forge::matmul(BLOCK_INDEX, weight, x, y, tokens, out, in, x_stride, y_stride);
}

KERNEL(matmul_f16, const forge::half_t* __restrict weight, const float* __restrict x, float* __restrict y,
       const int32_t* __restrict tokens, int out, int in, int x_stride, int y_stride) {
  forge::matmul(BLOCK_INDEX, weight, x, y, tokens, out, in, x_stride, y_stride);
}

KERNEL(matmul_bf16, const forge::bfloat_t* __restrict weight, const float* __restrict x, float* __restrict y,
       const int32_t* __restrict tokens, int out, int in, int x_stride, int y_stride) {
  forge::matmul(BLOCK_INDEX, weight, x, y, tokens, out, in, x_stride, y_stride);
}

// Product of each expert's matrix and its run of rows. Grid: x and y as of matmul, z = experts.
#define MATMUL_EXPERTS(name, type)                                                                        \
  KERNEL(name, const type* __restrict weight, /* [experts, out, in] */                                    \
         const float* __restrict x,           /* [places, in] */                                          \
         float* __restrict y,                 /* [places, out], rows y_stride apart */                    \
         const int32_t* __restrict runs,      /* [experts, 3], see experts.h */                           \
         int out, int in, int y_stride) {                                                                 \
    const forge::Dim3 block = BLOCK_INDEX;                                                                \
    const forge::Run run = forge::run_at(runs, block.z);                                                  \
    forge::matmul(forge::Dim3{block.x, block.y, 0}, weight + static_cast<size_t>(run.expert) * out * in,  \
                  x + static_cast<size_t>(run.first) * in, y + static_cast<size_t>(run.first) * y_stride, \
                  forge::run_count(runs, block.z), out, in, in, y_stride);                                \
  }

MATMUL_EXPERTS(matmul_experts_f32, float)
MATMUL_EXPERTS(matmul_experts_f16, forge::half_t)
MATMUL_EXPERTS(matmul_experts_bf16, forge::bfloat_t)

// Product of each head's matrix and its rows, which follow each other. Grid: x and y as of matmul, z =
// heads.
#define MATMUL_HEADS(name, type)                                                                         \
  KERNEL(name, const type* __restrict weight, /* [heads, out, in] */                                     \
         const float* __restrict x,           /* [heads, tokens, in] */                                  \
         float* __restrict y,                 /* [tokens, heads, out], y_stride and head_stride apart */ \
         const int32_t* __restrict tokens,    /* [1] */                                                  \
         int out, int in, int y_stride, int head_stride) {                                               \
    const forge::Dim3 block = BLOCK_INDEX;                                                               \
    const size_t head = block.z;                                                                         \
    forge::matmul(forge::Dim3{block.x, block.y, 0}, weight + head * out * in, x + head * *tokens * in,   \
                  y + head * head_stride, tokens, out, in, in, y_stride);                                \
  }

MATMUL_HEADS(matmul_heads_f32, float)
MATMUL_HEADS(matmul_heads_f16, forge::half_t)
MATMUL_HEADS(matmul_heads_bf16, forge::bfloat_t)
