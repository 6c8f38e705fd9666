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

// The bytes of low, places 0 to 3, and of high, 4 to 7, that the four lowest nibbles of places name.
DEVICE uint32_t bytes_of_nibbles(uint32_t low, uint32_t high, uint32_t places) {
  return __byte_perm(low, high, places);
}

#elif !defined(__HIP__)

// For tests: what unpacking gives is held against what a file says.
DEVICE float half_at(uint32_t word, int i) { return to_float(half_t{static_cast<uint16_t>(word >> (16 * i))}); }
DEVICE uint32_t as_word(float low, float high) {
  return to_half(low).bits | static_cast<uint32_t>(to_half(high).bits) << 16;
}
DEVICE uint32_t subtract_halves(uint32_t a, uint32_t b) {
  return as_word(half_at(a, 0) - half_at(b, 0), half_at(a, 1) - half_at(b, 1));
}
DEVICE uint32_t multiply_halves(uint32_t a, uint32_t b) {
  return as_word(half_at(a, 0) * half_at(b, 0), half_at(a, 1) * half_at(b, 1));
}
DEVICE uint32_t multiply_add_halves(uint32_t a, uint32_t b, uint32_t c) {
  return as_word(multiply_add(half_at(a, 0), half_at(b, 0), half_at(c, 0)),
                 multiply_add(half_at(a, 1), half_at(b, 1), half_at(c, 1)));
}
DEVICE uint32_t halves_of_bytes(uint32_t word, int i) {
  return 0x64006400u | (word >> (16 * i) & 255) | (word >> (16 * i + 8) & 255) << 16;
}
DEVICE uint32_t low_halves(uint32_t word) { return (word & 0xffffu) * 0x00010001u; }
DEVICE uint32_t high_halves(uint32_t word) { return (word >> 16) * 0x00010001u; }
DEVICE uint32_t bytes_of_nibbles(uint32_t low, uint32_t high, uint32_t places) {
  uint32_t nibbles = 0;
  for (int i = 0; i < 4; i++) nibbles |= (places >> (4 * i) & 15) << (8 * i);
  return pick_bytes(low, high, nibbles);
}

#endif

}  // namespace forge
