// Rows of 16-bit floats.
#pragma once

#include "words.h"

namespace forge {

// Stores element i = value(i), first <= i < end: all threads of a block together, four elements at a time where the
// row's length and so its alignment allow it.
template <class T, class Value>
DEVICE void convert_row(T* row, int first, int end, Value value) {
  struct alignas(4 * sizeof(T)) Four {
    T elements[4];
  };
  if (end % 4 == 0) {
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
