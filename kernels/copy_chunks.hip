// copy_chunks: y[i] = x[i] in the host's memory, for rows of a mapped file that the GPU is to read
//
// A copy of COPY_CHUNK words is long enough for the processor to read ahead, and short enough for all threads to have
// some.
#include <cstring>

#include "forge/contract.h"
#include "forge/device.h"

// Grid: x = ceil(count / COPY_CHUNK).
KERNEL(copy_chunks, const int32_t* __restrict x,  // [count]
       int32_t* __restrict y,                     // [count]
       int count) {
  using namespace forge;
  const int first = BLOCK_INDEX.x * COPY_CHUNK;
  std::memcpy(y + first, x + first, sizeof(int32_t) * min_of(COPY_CHUNK, count - first));
}
