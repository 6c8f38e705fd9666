// Rows of 16-bit floats as Hopper's matrix units take them: the CHUNK elements of a chunk of all rows lie behind each
// other, then those of the next chunk. Pieces of eight elements are swapped by the lowest three bits of the row, so
// that the same piece of eight rows is in different banks. The elements past the end of a row are zeros.
#pragma once

#include "../contract.h"
#include "../device.h"

namespace forge {

constexpr int CHUNK = FRAGMENT_CHUNK;

// Columns of `rows` rows.
DEVICE size_t column_place(int row, int element, int rows) {
  const int piece = element % CHUNK / 8 ^ row % 8;
  return (static_cast<size_t>(element / CHUNK) * rows + row) * CHUNK + piece * 8 + element % 8;
}
// Pieces of a chunk.
DEVICE int column_slot(int row, int piece) { return row * 8 + (piece ^ row % 8); }

}  // namespace forge
