// convert_columns: y = x in 16 bits, in the columns that Hopper's matrix units take
#include "forge/contract.h"
#include "forge/hopper/to_columns.h"

namespace {
using namespace forge;

constexpr int PART = forge::COLUMNS_PART;

// Grid: x = ceil(in / PART), y = rows.
template <class T>
DEVICE void convert_columns(Dim3 block, const float* __restrict x, T* __restrict y, int32_t* __restrict saturated,
                            int in, int y_rows) {
  const float* source = x + static_cast<size_t>(block.y) * in;
  const int first = block.x * PART;
  store_columns(y, block.y, y_rows, in, first, min_of(in, first + PART), saturated, [&](int i) { return source[i]; });
}
}  // namespace

KERNEL(convert_columns_f16, const float* __restrict x,  // [rows, in]
       forge::half_t* __restrict y,                     // [chunks, y_rows, CHUNK]
       int32_t* __restrict saturated,                   // [1]
       int in, int y_rows) {
  convert_columns(BLOCK_INDEX, x, y, saturated, in, y_rows);
}

KERNEL(convert_columns_bf16, const float* __restrict x, forge::bfloat_t* __restrict y, int32_t* __restrict saturated,
       int in, int y_rows) {
  convert_columns(BLOCK_INDEX, x, y, saturated, in, y_rows);
}

// Rows copied to the places of their experts. Grid: x = ceil(in / PART), y = rows * used.
#define SEND_COLUMNS(suffix, type)                                                              \
  KERNEL(send_columns_##suffix, const float* __restrict x, /* [rows, in] */                     \
         type* __restrict y,                               /* [chunks, y_rows, CHUNK] */        \
         const int32_t* __restrict place_of,               /* [rows, used] */                   \
         const int32_t* __restrict tokens,                 /* [1] */                            \
         int32_t* __restrict saturated,                    /* [1] */                            \
         int in, int y_rows, int used) {                                                        \
    const forge::Dim3 block = BLOCK_INDEX;                                                      \
    const int row = block.y / used;                                                             \
    if (row >= *tokens) return;                                                                 \
    const float* source = x + static_cast<size_t>(row) * in;                                    \
    const int first = block.x * PART;                                                           \
    store_columns(y, place_of[block.y], y_rows, in, first, min_of(in, first + PART), saturated, \
                  [&](int i) { return source[i]; });                                            \
  }

SEND_COLUMNS(f16, forge::half_t)
SEND_COLUMNS(bf16, forge::bfloat_t)
