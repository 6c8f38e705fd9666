// linear: y[t][n] = sum_k weight[n][k] * x[t][k], or that added to y, weights as pack_fragments makes them
//
// Forms by the number of tokens, with the same bits: an element depends on its row of the weight, its column of x and
// their length alone.
#include "forge/experts.h"
#include "forge/hopper/linear_hopper.h"

namespace {
using namespace forge;

template <class T>
struct Linear {
  const uint8_t* weight;
  const T* x;
  float* y;
  const int32_t* tokens;
  int tiles, out, in, x_rows, y_stride, accumulate;
};
template <class T>
DEVICE void finish(const Linear<T>& job, int t, int n, float sum) {
  float* y = job.y + static_cast<size_t>(t) * job.y_stride + n;
  *y = job.accumulate ? *y + sum : sum;
}
static_assert(LINEAR_ONE_ROWS == GROUP_ROWS && LINEAR_FEW_ROWS == GROUP_ROWS && LINEAR_ONE_COLUMNS == 1);
static_assert(LINEAR_WIDE16_ROWS == TILE_ROWS && LINEAR_WIDE32_ROWS == TILE_ROWS && LINEAR_WIDE64_ROWS == TILE_ROWS);
static_assert(LINEAR_WIDE128_ROWS == TILE_ROWS && LINEAR_MANY_ROWS == 2 * TILE_ROWS);
}  // namespace

// Grid: x = ceil(tokens / columns), y = ceil(out / rows) of a wide form; ceil(out / 16) of the others.
#define LINEAR(threads, resident, name, type, call)                                                    \
  KERNEL_OF(threads, resident, name, const uint8_t* __restrict weight, /* [tiles, chunks, 4, bytes] */ \
            const type* __restrict x,                                  /* [chunks, x_rows, CHUNK] */   \
            float* __restrict y,                                       /* [tokens, out], y_stride */   \
            const int32_t* __restrict tokens,                          /* [1] */                       \
            int tiles, int out, int in, int x_rows, int y_stride, int accumulate) {                    \
    const forge::Dim3 block = BLOCK_INDEX_AHEAD;                                                       \
    const Linear<type> job{weight, x, y, tokens, tiles, out, in, x_rows, y_stride, accumulate};        \
    call;                                                                                              \
  }
#define LINEAR_WIDE(name, type, Format, columns, sharing) \
  LINEAR(WIDE_BLOCK, 1, name, type, (linear_wide<Format, columns, Sharing::sharing>(job, block.y, block.x * columns)))
#define LINEAR_FORMAT(suffix, Format, type, depth)                                                           \
  LINEAR(BLOCK, 3, linear_one_##suffix, type, (linear_few<Format, 1, depth>(job, block.x)))                  \
  LINEAR(BLOCK, 3, linear_few_##suffix, type, (linear_few<Format, LINEAR_FEW_COLUMNS, depth>(job, block.x))) \
  LINEAR_WIDE(linear_wide16_##suffix, type, Format, LINEAR_WIDE16_COLUMNS, HALVES)                           \
  LINEAR_WIDE(linear_wide32_##suffix, type, Format, LINEAR_WIDE32_COLUMNS, HALVES)                           \
  LINEAR_WIDE(linear_wide64_##suffix, type, Format, LINEAR_WIDE64_COLUMNS, HALVES)                           \
  LINEAR_WIDE(linear_wide128_##suffix, type, Format, LINEAR_WIDE128_COLUMNS, HALVES)                         \
  LINEAR_WIDE(linear_many_##suffix, type, Format, LINEAR_MANY_COLUMNS, PAIRS)

LINEAR_FORMAT(f16, Floats<half_t>, half_t, 2)
LINEAR_FORMAT(bf16, Floats<bfloat_t>, bfloat_t, 2)
LINEAR_FORMAT(q2, Quant2, half_t, 2)
LINEAR_FORMAT(q3, Quant3, half_t, 4)
LINEAR_FORMAT(q4, Quant4, half_t, 4)
LINEAR_FORMAT(q5, Quant5, half_t, 4)
LINEAR_FORMAT(q6, Quant6, half_t, 2)
LINEAR_FORMAT(q8, Quant8, half_t, 2)
LINEAR_FORMAT(iq4, Levels4, half_t, 4)

// Product of each expert's tiles and its run of columns. Grid: as above, z = experts.
#define LINEAR_EXPERTS(threads, resident, name, type, Format, call)                                             \
  KERNEL_OF(threads, resident, name, const uint8_t* __restrict weight, /* [experts, tiles, chunks, 4, bytes] */ \
            const type* __restrict x,                                  /* [chunks, x_rows, CHUNK] */            \
            float* __restrict y,                                       /* [places, out], y_stride */            \
            const int32_t* __restrict runs,                            /* [experts, 3], see experts.h */        \
            int tiles, int out, int in, int x_rows, int y_stride) {                                             \
    const forge::Dim3 block = BLOCK_INDEX;                                                                      \
    const Run run = run_at(runs, block.z);                                                                      \
    if (run.count == 0) return;                                                                                 \
    const size_t bytes = static_cast<size_t>(tiles) * ((in + CHUNK - 1) / CHUNK) * TILE_GROUPS * Format::BYTES; \
    const Linear<type> job{weight + run.expert * bytes,                                                         \
                           x + static_cast<size_t>(run.first) * CHUNK,                                          \
                           y + static_cast<size_t>(run.first) * y_stride,                                       \
                           run_count(runs, block.z),                                                            \
                           tiles,                                                                               \
                           out,                                                                                 \
                           in,                                                                                  \
                           x_rows,                                                                              \
                           y_stride,                                                                            \
                           0};                                                                                  \
    call;                                                                                                       \
  }
// A run of any length, some rows at a time: what most are of, and others read their weights again.
namespace {
template <int ROWS, class T, class Multiply>
DEVICE void linear_run(Linear<T> job, const Run& run, const Multiply& multiply) {
  for (int t = 0; t < run.count; t += ROWS) {
    const int32_t left = run.count - t;
    job.tokens = &left;
    multiply(job);
    job.x += ROWS * CHUNK;
    job.y += static_cast<size_t>(ROWS) * job.y_stride;
    block_sync();
  }
}
template <class F, int DEPTH, class T>
DEVICE void linear_run_few(const Linear<T>& job, int group, const Run& run) {
  constexpr int ROWS = LINEAR_FEW_COLUMNS;
  linear_run<ROWS>(job, run, [&](const Linear<T>& part) { linear_few<F, ROWS, DEPTH>(part, group); });
}
template <class F, int DEPTH, class T>
DEVICE void linear_run_several(const Linear<T>& job, int group, const Run& run) {
  constexpr int ROWS = LINEAR_SEVERAL_ROWS;
  static_assert(FewLayout<ROWS>::BYTES == LINEAR_SEVERAL_LDS);
  extern __shared__ __align__(1024) uint8_t lds[];
  Piece* columns = reinterpret_cast<Piece*>(lds);
  float* parts = reinterpret_cast<float*>(columns + FewLayout<ROWS>::COLUMNS);
  linear_run<ROWS>(job, run,
                   [&](const Linear<T>& part) { linear_few_in<F, ROWS, DEPTH>(columns, parts, part, group); });
}
}  // namespace
#define LINEAR_EXPERTS_WIDE(name, type, Format, columns) \
  LINEAR_EXPERTS(WIDE_BLOCK, 1, name, type, Format,      \
                 (linear_wide<Format, columns, Sharing::HALVES>(job, block.y, block.x * columns)))
#define LINEAR_EXPERTS_FORMAT(suffix, Format, type, depth)                                                          \
  LINEAR_EXPERTS(BLOCK, 3, linear_experts_one_##suffix, type, Format, (linear_few<Format, 1, depth>(job, block.x))) \
  LINEAR_EXPERTS(BLOCK, 3, linear_experts_few_##suffix, type, Format,                                               \
                 (linear_run_few<Format, depth>(job, block.x, run)))                                                \
  LINEAR_EXPERTS(BLOCK, 3, linear_experts_several_##suffix, type, Format,                                           \
                 (linear_run_several<Format, 2>(job, block.x, run)))                                                \
  LINEAR_EXPERTS_WIDE(linear_experts_wide64_##suffix, type, Format, LINEAR_WIDE64_COLUMNS)                          \
  LINEAR_EXPERTS_WIDE(linear_experts_wide128_##suffix, type, Format, LINEAR_WIDE128_COLUMNS)

LINEAR_EXPERTS_FORMAT(f16, Floats<half_t>, half_t, 2)
LINEAR_EXPERTS_FORMAT(bf16, Floats<bfloat_t>, bfloat_t, 2)
LINEAR_EXPERTS_FORMAT(q2, Quant2, half_t, 2)
LINEAR_EXPERTS_FORMAT(q3, Quant3, half_t, 4)
LINEAR_EXPERTS_FORMAT(q4, Quant4, half_t, 4)
LINEAR_EXPERTS_FORMAT(q5, Quant5, half_t, 4)
LINEAR_EXPERTS_FORMAT(q6, Quant6, half_t, 2)
LINEAR_EXPERTS_FORMAT(q8, Quant8, half_t, 2)
LINEAR_EXPERTS_FORMAT(iq4, Levels4, half_t, 4)
