// block_sums: y[b][p] = a checksum, of two words, of part p of block blocks[b]
//
// Keys and values of each layer are buffers of their own. Their addresses come in a table, so that one launch reads all
// of them.
#include "forge/contract.h"
#include "forge/words.h"

namespace {
using namespace forge;

struct Sums {
  uint32_t first = 0, second = 0;
};

// One-to-one in `word`: no change of a single word leaves the first sum as it was. The index tells equal words apart.
DEVICE void add(Sums& sums, uint32_t word, uint32_t index) {
  uint32_t mixed = (word ^ index * 0x9e3779b1u) * 0x85ebca6bu;
  mixed ^= mixed >> 15;
  sums.first += mixed;
  mixed *= 0xc2b2ae35u;
  mixed ^= mixed >> 13;
  sums.second += mixed;
}
}  // namespace

// Grid: x = parts, y = blocks.
KERNEL(block_sums, const int32_t* __restrict blocks,  // [count]
       const int32_t* __restrict parts,               // [parts, SUMMED_PART_WORDS]
       int32_t* __restrict y,                         // [count, parts, 2]
       int part_count) {
  using namespace forge;
  const Dim3 at = BLOCK_INDEX;
  const auto part = load_aligned<Words4>(parts + SUMMED_PART_WORDS * at.x);
  const uint64_t base = static_cast<uint64_t>(part.w[1]) << 32 | part.w[0];
  const uint64_t block = static_cast<uint32_t>(blocks[at.y]);
  const int stride = static_cast<int>(part.w[2]), count = static_cast<int>(part.w[3]);
  const auto* words = reinterpret_cast<const uint32_t*>(base) + block * stride;
  Sums sums;
  constexpr int AT_ONCE = 4;
  const int whole = reinterpret_cast<uint64_t>(words) % sizeof(Words4) == 0 ? count - count % AT_ONCE : 0;
  for (int i = AT_ONCE * thread_id(); i < whole; i += AT_ONCE * BLOCK) {
    const Words4 four = load_aligned<Words4>(words + i);
    UNROLL
    for (int k = 0; k < AT_ONCE; k++) add(sums, four.w[k], i + k);
  }
  for (int i = whole + thread_id(); i < count; i += BLOCK) add(sums, words[i], i);
  UNROLL
  for (int offset = WAVE / 2; offset > 0; offset >>= 1) {
    sums.first += static_cast<uint32_t>(shuffle_xor(static_cast<int>(sums.first), offset));
    sums.second += static_cast<uint32_t>(shuffle_xor(static_cast<int>(sums.second), offset));
  }
  SHARED(uint32_t, firsts, WAVES);
  SHARED(uint32_t, seconds, WAVES);
  if (lane_id() == 0) {
    firsts[wave_id()] = sums.first;
    seconds[wave_id()] = sums.second;
  }
  block_sync();
  if (thread_id() != 0) return;
  for (int w = 1; w < WAVES; w++) {
    sums.first += firsts[w];
    sums.second += seconds[w];
  }
  int32_t* target = y + 2 * (static_cast<int64_t>(at.y) * part_count + at.x);
  target[0] = static_cast<int32_t>(sums.first);
  target[1] = static_cast<int32_t>(sums.second);
}
