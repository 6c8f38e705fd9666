// Rows of 16-bit floats.
#pragma once

#include "words.h"

namespace forge {

// Stores element i = value(i), first <= i < end: all threads of a block together, four elements at a time where the
// length of the rows, and so the alignment of each, allows it. `first` is a multiple of 4.
template <class T, class Value>
DEVICE void convert_row(T* __restrict__ row, int length, int first, int end, Value value) {
  struct alignas(4 * sizeof(T)) Four {
    T elements[4];
  };
  if (length % 4 == 0) {
    for (int i = first + 4 * thread_id(); i < end; i += 4 * BLOCK) {
      Four four;
      UNROLL
      for (int j = 0; j < 4; j++) store(&four.elements[j], value(i + j));
      store_aligned(row + i, four);
    }
  } else {
    for (int i = first + thread_id(); i < end; i += BLOCK) store(row + i, value(i));
  }
}

}  // namespace forge
