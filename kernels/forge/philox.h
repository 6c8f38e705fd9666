// Philox4x32-10, a counter-based random generator: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
#pragma once

#include "device.h"

namespace forge {

// The first word of the block that (counter, key) names.
DEVICE uint32_t philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  UNROLL
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

// A standard Gumbel variate from 32 random bits: -ln(-ln u), u uniform in (0, 1). The argmax of logits plus Gumbel
// noise is a draw from their softmax (Gumbel 1954), with no cumulative sum and so no order of summation. u has 23 bits,
// so that both u and 1 - u are exact in f32.
DEVICE float gumbel(uint32_t bits) {
  const float u = (static_cast<float>(bits >> 9) + 0.5f) * 1.1920929e-7f;
  return -log_of(-log_of(u));
}
// Not below gumbel(bits): -ln u >= 1 - u, and 1 - u = (d - 0.5) / 2^23 >= d / 2^24 for a whole number d >= 1, whose
// logarithm is at least its exponent's. A hundredth is more than what logarithms are off.
DEVICE float gumbel_at_most(uint32_t bits) {
  const float d = static_cast<float>(static_cast<int32_t>((1u << 23) - (bits >> 9)));
  int32_t exponent;
  __builtin_memcpy(&exponent, &d, 4);
  return static_cast<float>(24 + 127 - (exponent >> 23)) * 0.6931472f + 0.01f;
}
constexpr float MOST_GUMBEL = 24 * 0.6931472f + 0.01f;

}  // namespace forge
