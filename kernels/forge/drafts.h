// Draft tokens: sampled rows of one slot that follow each other. Each samples the token after its own; the token of the
// first is one that the slot has, those of the others are draft tokens for the rows before them.
#pragma once

#include "slot.h"

namespace forge {

// The slot that a sampled row samples for.
DEVICE int slot_of(const int32_t* sample_row, const int32_t* row_slot, int sample) {
  return row_slot[sample_row[sample]];
}

// The first of the sampled rows of its slot.
DEVICE int first_of_slot(const int32_t* sample_row, const int32_t* row_slot, int sample) {
  const int slot = slot_of(sample_row, row_slot, sample);
  while (sample > 0 && slot_of(sample_row, row_slot, sample - 1) == slot) sample--;
  return sample;
}

}  // namespace forge
