// Loads and stores of up to 16 bytes that are aligned as their type.
#pragma once

#include "device.h"

namespace forge {

struct alignas(16) Words4 {
  uint32_t w[4];
};
struct alignas(8) Words2 {
  uint32_t w[2];
};
struct alignas(16) Floats4 {
  float f[4];
};
struct alignas(8) Floats2 {
  float f[2];
};

template <class T>
DEVICE T load_aligned(const void* p) {
  check_alignment(p, alignof(T));
  return *static_cast<const T*>(p);
}
template <class T>
DEVICE void store_aligned(void* p, T value) {
  check_alignment(p, alignof(T));
  *static_cast<T*>(p) = value;
}

// The same of weights, which no step writes.
template <class T>
DEVICE T load_constant(const void* p) {
#if defined(__CUDACC__)
  T value;
  if constexpr (sizeof(T) == 16) {
    const uint4 words = __ldg(static_cast<const uint4*>(p));
    __builtin_memcpy(&value, &words, sizeof(T));
  } else if constexpr (sizeof(T) == 8) {
    const uint2 words = __ldg(static_cast<const uint2*>(p));
    __builtin_memcpy(&value, &words, sizeof(T));
  } else {
    value = __ldg(static_cast<const T*>(p));
  }
  return value;
#else
  return load_aligned<T>(p);
#endif
}

}  // namespace forge
