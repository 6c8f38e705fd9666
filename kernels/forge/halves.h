// Two f16 in a word, each half by itself.
#pragma once

#include "device.h"

namespace forge {

#if defined(__CUDACC__)

DEVICE __half2 as_halves(uint32_t word) {
  __half2 halves;
  __builtin_memcpy(&halves, &word, 4);
  return halves;
}
DEVICE uint32_t as_word(__half2 halves) {
  uint32_t word;
  __builtin_memcpy(&word, &halves, 4);
  return word;
}
DEVICE uint32_t subtract_halves(uint32_t a, uint32_t b) { return as_word(__hsub2_rn(as_halves(a), as_halves(b))); }
DEVICE uint32_t multiply_halves(uint32_t a, uint32_t b) { return as_word(__hmul2_rn(as_halves(a), as_halves(b))); }
DEVICE uint32_t multiply_add_halves(uint32_t a, uint32_t b, uint32_t c) {
  return as_word(__hfma2(as_halves(a), as_halves(b), as_halves(c)));
}
// Bytes 2 i and 2 i + 1 below the exponent of 1024.
DEVICE uint32_t halves_of_bytes(uint32_t word, int i) {
  return __byte_perm(word, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
}
DEVICE uint32_t low_halves(uint32_t word) { return __byte_perm(word, 0, 0x1010); }
DEVICE uint32_t high_halves(uint32_t word) { return __byte_perm(word, 0, 0x3232); }

#endif

}  // namespace forge
