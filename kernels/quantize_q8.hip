// quantize_q8: each 32 elements of a row become int8 with a scale: quant = round(x * (127 / largest)), scale = largest
// / 127
//
// Ties go to even. A block of numbers too small to divide by becomes 0; one with an infinity or NaN keeps it in its
// scale, so that it shows in every product. A row depends on its own elements alone.
#include "forge/q8.h"

namespace {
using namespace forge;

// Lanes that share a block, each with every LANES-th element: sums of sixteen are then of whole lanes.
constexpr int LANES = WAVE < 16 ? WAVE : 16;

DEVICE uint32_t magnitude_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits & 0x7fffffffu;
}
}  // namespace

// One block a row.
KERNEL(quantize_q8, const float* __restrict x,  // [rows, in]
       uint8_t* __restrict y,                   // [rows, in / 32, 40], see q8.h
       int in) {
  using namespace forge;
  const float* source = x + static_cast<size_t>(BLOCK_INDEX.x) * in;
  uint8_t* target = y + static_cast<size_t>(BLOCK_INDEX.x) * q8_row_bytes(in);
  auto* quants = reinterpret_cast<int8_t*>(target);
  auto* scales = reinterpret_cast<float*>(target + in);
  auto* sums = reinterpret_cast<int16_t*>(target + in + in / 8);
  const int blocks = in / Q8_BLOCK, lane = thread_id() % LANES;

  for (int first = 0; first < blocks; first += BLOCK / LANES) {
    const int mine = first + thread_id() / LANES;
    // Every lane takes part in the shuffles; those past the end repeat the last block and store nothing.
    const int b = min_of(mine, blocks - 1);
    const float* values = source + static_cast<size_t>(b) * Q8_BLOCK;
    // Compared as whole numbers: NaN is then the largest of all, and no order can lose it.
    uint32_t largest_bits = 0;
    for (int i = lane; i < Q8_BLOCK; i += LANES) largest_bits = max_of(largest_bits, magnitude_bits(values[i]));
    UNROLL
    for (int offset = LANES / 2; offset > 0; offset >>= 1) {
      largest_bits = max_of(largest_bits, static_cast<uint32_t>(shuffle_xor(static_cast<int>(largest_bits), offset)));
    }
    float largest;
    __builtin_memcpy(&largest, &largest_bits, 4);
    const bool is_finite = largest_bits < 0x7f800000u, is_tiny = largest < 1e-36f;
    const float inverse = is_finite && !is_tiny ? 127.0f / largest : 0.0f;
    const bool stores = mine < blocks;
    UNROLL
    for (int half = 0; half < 2; half++) {
      int sum = 0;
      for (int i = half * 16 + lane; i < half * 16 + 16; i += LANES) {
        const int quant = is_finite ? static_cast<int>(__builtin_rintf(values[i] * inverse)) : 0;
        sum += quant;
        if (stores) quants[static_cast<size_t>(b) * Q8_BLOCK + i] = static_cast<int8_t>(quant);
      }
      UNROLL
      for (int offset = LANES / 2; offset > 0; offset >>= 1) sum += shuffle_xor(sum, offset);
      if (stores && lane == 0) sums[2 * b + half] = static_cast<int16_t>(sum);
    }
    if (stores && lane == 0) scales[b] = is_tiny ? 0.0f : largest / 127.0f;
  }
}
