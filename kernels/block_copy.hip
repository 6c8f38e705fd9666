// gather_blocks: y[b] = all parts of block blocks[b], one behind the other; scatter_blocks: the other way round
//
// Keys and values of each layer are buffers of their own. Their addresses come in a table, as for block_sums, so that
// one launch and one copy over the bus move whole blocks.
#include "forge/contract.h"
#include "forge/words.h"

namespace {
using namespace forge;

// Words of one part of one block in its buffer, and among the words of the whole block.
struct Part {
  uint32_t* words;
  int64_t at;
  int count;
};

DEVICE Part part_of(const int32_t* parts, const int32_t* offsets, const int32_t* blocks, int block_words, Dim3 at) {
  const auto part = load_aligned<Words4>(parts + SUMMED_PART_WORDS * at.x);
  const uint64_t base = static_cast<uint64_t>(part.w[1]) << 32 | part.w[0];
  const uint64_t block = static_cast<uint32_t>(blocks[at.y]);
  return {reinterpret_cast<uint32_t*>(base) + block * part.w[2],
          static_cast<int64_t>(at.y) * block_words + offsets[at.x], static_cast<int>(part.w[3])};
}

// Four words at a time where both are aligned.
DEVICE void copy(uint32_t* to, const uint32_t* from, int count) {
  constexpr int AT_ONCE = 4;
  const bool is_aligned = (reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % sizeof(Words4) == 0;
  const int whole = is_aligned ? count - count % AT_ONCE : 0;
  for (int i = AT_ONCE * thread_id(); i < whole; i += AT_ONCE * BLOCK) {
    store_aligned(to + i, load_aligned<Words4>(from + i));
  }
  for (int i = whole + thread_id(); i < count; i += BLOCK) to[i] = from[i];
}
}  // namespace

// Grid: x = parts, y = blocks.
KERNEL(gather_blocks, const int32_t* __restrict blocks,  // [count]
       const int32_t* __restrict parts,                  // [parts, SUMMED_PART_WORDS]
       const int32_t* __restrict offsets,                // [parts]
       int32_t* __restrict y,                            // [count, block_words]
       int block_words) {
  using namespace forge;
  const Part part = part_of(parts, offsets, blocks, block_words, BLOCK_INDEX);
  copy(reinterpret_cast<uint32_t*>(y) + part.at, part.words, part.count);
}

// Grid: x = parts, y = blocks.
KERNEL(scatter_blocks, const int32_t* __restrict blocks,  // [count]
       const int32_t* __restrict parts,                   // [parts, SUMMED_PART_WORDS]
       const int32_t* __restrict offsets,                 // [parts]
       const int32_t* __restrict x,                       // [count, block_words]
       int block_words) {
  using namespace forge;
  const Part part = part_of(parts, offsets, blocks, block_words, BLOCK_INDEX);
  copy(part.words, reinterpret_cast<const uint32_t*>(x) + part.at, part.count);
}
