// copy_words: y[i] = x[i]
//
// One of the two lies in the host's memory, pinned: few words cross the bus sooner so than by a copy engine, which has
// to wait for the launches before it, and they for it.
#include "forge/device.h"

// One thread a word.
KERNEL(copy_words, const int32_t* __restrict x,  // [count]
       int32_t* __restrict y,                    // [count]
       int count) {
  const int i = BLOCK_INDEX.x * BLOCK + forge::thread_id();
  if (i < count) y[i] = forge::load_fresh(x + i);
}
