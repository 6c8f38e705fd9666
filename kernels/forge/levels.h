// The sixteen levels that nibbles of a format name: of IQ4_NL and IQ4_XS (llama.cpp's kvalues_iq4nl) closer together
// around zero, as weights are; of MXFP4 twice those of E2M1 (OCP Microscaling Formats 1.0), whose scales are halved for
// it; of the formats of grid_blocks.h magnitudes by their code, and then the negative ones. IQ1's codes mean -1, 0 and
// 1, which an eighth is added to or taken from: here eight times that.
#pragma once

#include "device.h"

namespace forge {

inline constexpr int8_t LEVELS[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t LEVELS_MXFP4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr int8_t LEVELS_IQ2[16] = {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43};
inline constexpr int8_t LEVELS_IQ3_XXS[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr int8_t LEVELS_IQ3_S[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
inline constexpr int8_t LEVELS_IQ1[16] = {-7, 1, 9, 0, 0, 0, 0, 0, -9, -1, 7};

// Levels 4 w .. 4 w + 3, lowest first.
constexpr uint32_t levels_word(const int8_t (&levels)[16], int w) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; i--) word = word << 8 | static_cast<uint8_t>(levels[4 * w + i]);
  return word;
}
template <const int8_t (&LEVELS_)[16]>
struct LevelWords {
  static constexpr uint32_t W0 = levels_word(LEVELS_, 0), W4 = levels_word(LEVELS_, 1), W8 = levels_word(LEVELS_, 2),
                            W12 = levels_word(LEVELS_, 3);
};
constexpr uint32_t LEVELS_0 = LevelWords<LEVELS>::W0, LEVELS_4 = LevelWords<LEVELS>::W4,
                   LEVELS_8 = LevelWords<LEVELS>::W8, LEVELS_12 = LevelWords<LEVELS>::W12;

// The level that each byte, below 16, names.
template <const int8_t (&LEVELS_)[16]>
DEVICE uint32_t levels_at(uint32_t places) {
  using Words = LevelWords<LEVELS_>;
  const uint32_t places_of_eight = places & 0x07070707u;
  const uint32_t below = pick_bytes(Words::W0, Words::W4, places_of_eight);
  const uint32_t above = pick_bytes(Words::W8, Words::W12, places_of_eight);
  return pick_bytes(below, above, 0x03020100u | (places & 0x08080808u) >> 1);
}

}  // namespace forge
