// block_sums: y[b][p] = a checksum, of two words, of the first rows[b] rows of part p of block blocks[b]
//
// Keys and values of each layer are buffers of their own. Their addresses come in a table, so that one launch reads all
// of them. A block that sequences still write to is summed up to the row that was written last: of each head, the first
// rows of its elements, and with q8_0 of its scales behind them.
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

constexpr int AT_ONCE = 4;

DEVICE void add(Sums& sums, const Words4& four, int index) {
  UNROLL
  for (int k = 0; k < AT_ONCE; k++) add(sums, four.w[k], index + k);
}

// Adds words `first` to `last` of a part, four at a time where they are aligned; `first` is a multiple of four.
DEVICE void add_range(Sums& sums, const uint32_t* words, int first, int last) {
  // Several loads are under way at once, or memory has too little to do.
  constexpr int LOADS = 4, STRIDE = AT_ONCE * BLOCK;
  const bool is_aligned = reinterpret_cast<uint64_t>(words) % sizeof(Words4) == 0;
  const int whole = is_aligned ? last - (last - first) % AT_ONCE : first;
  int next = first + AT_ONCE * thread_id();
  for (; next + (LOADS - 1) * STRIDE < whole; next += LOADS * STRIDE) {
    Words4 loaded[LOADS];
    UNROLL
    for (int k = 0; k < LOADS; k++) loaded[k] = load_aligned<Words4>(words + next + k * STRIDE);
    UNROLL
    for (int k = 0; k < LOADS; k++) add(sums, loaded[k], next + k * STRIDE);
  }
  for (; next < whole; next += STRIDE) add(sums, load_aligned<Words4>(words + next), next);
  for (int i = whole + thread_id(); i < last; i += BLOCK) add(sums, words[i], i);
}
}  // namespace

// Grid: x = parts, y = blocks.
KERNEL(block_sums, const int32_t* __restrict blocks,  // [count]
       const int32_t* __restrict rows,                // [count], from 1 to KV_BLOCK_TOKENS
       const int32_t* __restrict parts,               // [parts, SUMMED_PART_WORDS]
       const int32_t* __restrict row_words,           // [parts, 2]: words of a row's elements and scales of one head
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
  // A head has a plane of elements and one of scales, one behind the other; a whole block counts as one plane.
  const bool is_whole = rows[at.y] == KV_BLOCK_TOKENS;
  for (int first = 0, plane = 0; first < count; plane ^= 1) {
    const int row = is_whole ? count : row_words[2 * at.x + plane];
    add_range(sums, words, first, first + (is_whole ? row : rows[at.y] * row));
    first += is_whole ? row : KV_BLOCK_TOKENS * row;
  }
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
