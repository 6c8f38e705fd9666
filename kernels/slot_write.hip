// slot_write: slots[index[i]] = value[i]
//
// Applies a step's changes to the slots: parameters of those that open, new entries of block tables. The pairs of one
// step never name a word twice, so their order does not matter.
#include "forge/slot.h"

// One thread a pair.
KERNEL(slot_write, int32_t* __restrict slots,  // [slots, slot_words]
       const int32_t* __restrict writes,       // [count, 2]: index, value
       const int32_t* __restrict count) {      // [1]
  const int i = BLOCK_INDEX.x * BLOCK + forge::thread_id();
  if (i < *count) slots[writes[2 * i]] = writes[2 * i + 1];
}
