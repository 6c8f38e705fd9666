// swiglu_columns: swiglu, in the columns that Hopper's matrix units take
#include "forge/contract.h"
#include "forge/hopper/to_columns.h"
#include "forge/swiglu.h"

namespace {
using namespace forge;

constexpr int PART = forge::COLUMNS_PART;

// Grid: x = ceil(ffn / PART), y = rows.
template <class T>
DEVICE void swiglu_columns(Dim3 block, const float* __restrict gate_up, T* __restrict y, int32_t* __restrict saturated,
                           int ffn, int y_rows) {
  const float* gate = gate_up + static_cast<size_t>(block.y) * 2 * ffn;
  const int first = block.x * PART;
  store_columns(y, block.y, y_rows, ffn, first, min_of(ffn, first + PART), saturated,
                [&](int i) { return silu(gate[i]) * gate[ffn + i]; });
}
}  // namespace

KERNEL(swiglu_columns_f16, const float* __restrict gate_up,  // [rows, 2, ffn]
       forge::half_t* __restrict y,                          // [chunks, y_rows, CHUNK]
       int32_t* __restrict saturated,                        // [1]
       int ffn, int y_rows) {
  swiglu_columns(BLOCK_INDEX, gate_up, y, saturated, ffn, y_rows);
}

KERNEL(swiglu_columns_bf16, const float* __restrict gate_up, forge::bfloat_t* __restrict y,
       int32_t* __restrict saturated, int ffn, int y_rows) {
  swiglu_columns(BLOCK_INDEX, gate_up, y, saturated, ffn, y_rows);
}

// SwiGLU of the places that rows were sent to. Grid: x = ceil(ffn / PART), y = rows * used.
#define SWIGLU_SENT_COLUMNS(suffix, type)                                                                              \
  KERNEL(swiglu_sent_columns_##suffix, const float* __restrict gate_up, /* [places, 2, ffn] */                         \
         type* __restrict y,                                            /* [chunks, y_rows, CHUNK] */                  \
         const int32_t* __restrict place_of,                            /* [rows, used] */                             \
         const int32_t* __restrict tokens,                              /* [1] */                                      \
         int32_t* __restrict saturated,                                 /* [1] */                                      \
         int ffn, int y_rows, int used) {                                                                              \
    const forge::Dim3 block = BLOCK_INDEX;                                                                             \
    if (block.y / used >= *tokens) return;                                                                             \
    swiglu_columns(forge::Dim3{block.x, place_of[block.y], 0}, gate_up, y, saturated, ffn, y_rows);                    \
  }                                                                                                                    \
  KERNEL(geglu_sent_columns_##suffix, const float* __restrict gate_up, type* __restrict y,                             \
         const int32_t* __restrict place_of, const int32_t* __restrict tokens, int32_t* __restrict saturated, int ffn, \
         int y_rows, int used) {                                                                                       \
    const forge::Dim3 block = BLOCK_INDEX;                                                                             \
    if (block.y / used >= *tokens) return;                                                                             \
    const int place = place_of[block.y], first = block.x * PART;                                                       \
    const float* gates = gate_up + static_cast<size_t>(place) * 2 * ffn;                                               \
    store_columns(y, place, y_rows, ffn, first, min_of(ffn, first + PART), saturated,                                  \
                  [&](int i) { return gelu(gates[i]) * gates[ffn + i]; });                                             \
  }                                                                                                                    \
  KERNEL(relu_squared_sent_columns_##suffix, const float* __restrict up, /* [places, ffn] */                           \
         type* __restrict y, const int32_t* __restrict place_of, const int32_t* __restrict tokens,                     \
         int32_t* __restrict saturated, int ffn, int y_rows, int used) {                                               \
    const forge::Dim3 block = BLOCK_INDEX;                                                                             \
    if (block.y / used >= *tokens) return;                                                                             \
    const int place = place_of[block.y], first = block.x * PART;                                                       \
    const float* ups = up + static_cast<size_t>(place) * ffn;                                                          \
    store_columns(y, place, y_rows, ffn, first, min_of(ffn, first + PART), saturated,                                  \
                  [&](int i) { return relu_squared(ups[i]); });                                                        \
  }                                                                                                                    \
  KERNEL(swiglu_clamped_sent_columns_##suffix, const float* __restrict gate_up, type* __restrict y,                    \
         const int32_t* __restrict place_of, const int32_t* __restrict tokens, int32_t* __restrict saturated, int ffn, \
         int y_rows, int used, float alpha, float limit) {                                                             \
    const forge::Dim3 block = BLOCK_INDEX;                                                                             \
    if (block.y / used >= *tokens) return;                                                                             \
    const int place = place_of[block.y], first = block.x * PART;                                                       \
    const float* gates = gate_up + static_cast<size_t>(place) * 2 * ffn;                                               \
    store_columns(y, place, y_rows, ffn, first, min_of(ffn, first + PART), saturated,                                  \
                  [&](int i) { return swiglu_clamped(gates[i], gates[ffn + i], alpha, limit); });                      \
  }

SWIGLU_SENT_COLUMNS(f16, forge::half_t)
SWIGLU_SENT_COLUMNS(bf16, forge::bfloat_t)
