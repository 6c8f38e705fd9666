// Stores the attention output of a row in the columns that Hopper's matrix units take: see attention_combine.h.
#pragma once

#include "columns.h"

namespace forge {

template <class T>
struct AttendedColumnTiles {
  T* out;
  int rows;
};
// Rows end with a chunk: see the contract. Averages of values that f16 holds are in its range.
template <class T>
DEVICE void store_attended(const AttendedColumnTiles<T>& columns, int row, int, int element, float value) {
  store(columns.out + column_place(row, element, columns.rows), value);
}

}  // namespace forge
