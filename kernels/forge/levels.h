// The sixteen levels that nibbles of IQ4_NL and IQ4_XS name (llama.cpp's kvalues_iq4nl): closer together around zero,
// as weights are.
#pragma once

#include "device.h"

namespace forge {

constexpr int8_t LEVELS[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Levels 4 w .. 4 w + 3, lowest first.
constexpr uint32_t levels_word(int w) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; i--) word = word << 8 | static_cast<uint8_t>(LEVELS[4 * w + i]);
  return word;
}
constexpr uint32_t LEVELS_0 = levels_word(0), LEVELS_4 = levels_word(1), LEVELS_8 = levels_word(2),
                   LEVELS_12 = levels_word(3);

// The level that each byte, below 16, names.
DEVICE uint32_t levels_at(uint32_t places) {
  const uint32_t places_of_eight = places & 0x07070707u;
  const uint32_t below = pick_bytes(LEVELS_0, LEVELS_4, places_of_eight);
  const uint32_t above = pick_bytes(LEVELS_8, LEVELS_12, places_of_eight);
  return pick_bytes(below, above, 0x03020100u | (places & 0x08080808u) >> 1);
}

}  // namespace forge
