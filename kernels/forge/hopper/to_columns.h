// Rows that are written as the columns of columns.h.
#pragma once

#include "../words.h"
#include "columns.h"

namespace forge {

// A number beyond f16's range becomes the largest f16, and is counted if `saturated` is given: an infinity would
// make all that it is multiplied with NaN or infinite. A NaN stays one.
DEVICE void store_column(half_t* p, float value, int32_t* saturated) {
  constexpr float LARGEST = 65504.0f;
  if ((value > LARGEST || value < -LARGEST) && saturated != nullptr) shared_add(*saturated, 1);
  *p = to_half(value > LARGEST ? LARGEST : value < -LARGEST ? -LARGEST : value);
}
DEVICE void store_column(bfloat_t* p, float value, int32_t*) { store(p, value); }

// Stores element i = value(i) of the row for first <= i < end, and zeros behind its `length` elements up to the end of
// a chunk: all threads of a block together, a piece each. `first` is a multiple of a chunk, and so is `end` unless it
// is the row's.
template <class T, class Value>
DEVICE void store_columns(T* columns, int row, int rows, int length, int first, int end, int32_t* saturated,
                          Value value) {
  struct alignas(16) Eight {
    T elements[8];
  };
  const int padded = (end + CHUNK - 1) / CHUNK * CHUNK;
  for (int i = first + 8 * thread_id(); i < padded; i += 8 * BLOCK) {
    Eight eight;
    UNROLL
    for (int j = 0; j < 8; j++) store_column(&eight.elements[j], i + j < length ? value(i + j) : 0.0f, saturated);
    store_aligned(columns + column_place(row, i, rows), eight);
  }
}

}  // namespace forge
