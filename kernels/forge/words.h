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

template <class T>
DEVICE T load_aligned(const void* p) {
  return *static_cast<const T*>(p);
}
template <class T>
DEVICE void store_aligned(void* p, T value) {
  *static_cast<T*>(p) = value;
}

}  // namespace forge
