// read_words: y[b] = the exclusive or of the words of part b
//
// Reads memory and does next to nothing else: what a benchmark divides the speed of everything else by.
#include "forge/words.h"

// One block a part of `part` words.
KERNEL(read_words, const int32_t* __restrict words,  // [count], at a 16-byte border
       int32_t* __restrict y,                        // [parts]
       int count, int part) {
  using namespace forge;
  const int64_t first = static_cast<int64_t>(BLOCK_INDEX.x) * part;
  const int64_t last = max_of(first, min_of<int64_t>(count, first + part));
  int32_t all = 0;
  // Four words at a time where parts begin at a multiple of four.
  constexpr int AT_ONCE = 4;
  const int64_t whole = part % AT_ONCE == 0 ? last - (last - first) % AT_ONCE : first;
  for (int64_t i = first + AT_ONCE * thread_id(); i < whole; i += AT_ONCE * BLOCK) {
    const Words4 four = load_aligned<Words4>(words + i);
    all ^= static_cast<int32_t>(four.w[0] ^ four.w[1] ^ four.w[2] ^ four.w[3]);
  }
  for (int64_t i = whole + thread_id(); i < last; i += BLOCK) all ^= words[i];
  UNROLL
  for (int offset = WAVE / 2; offset > 0; offset >>= 1) all ^= shuffle_xor(all, offset);
  SHARED(int32_t, parts, WAVES);
  if (lane_id() == 0) parts[wave_id()] = all;
  block_sync();
  if (thread_id() != 0) return;
  for (int w = 1; w < WAVES; w++) all ^= parts[w];
  y[BLOCK_INDEX.x] = all;
}
